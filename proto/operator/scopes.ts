/** What a person may do, by the groups of the directory (spec, "Operator login"): each with those before it. */
export const scopes = ["read", "audit", "admin"] as const;

/** One of `scopes`. */
export type Scope = (typeof scopes)[number];
