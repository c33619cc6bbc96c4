/** The scopes of operators, derived from directory groups (docs/sign-in.md). Each includes those before it. */
export const scopes = ["read", "audit", "admin"] as const;

/** One of `scopes`. */
export type Scope = (typeof scopes)[number];
