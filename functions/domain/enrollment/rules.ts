import { composeIdentity } from "../../../proto/identity.ts";

/** The cap of `certificate_ttl_seconds`: 30 days (spec, "Limits"). */
export const certificateTtlSecondsMax = 2_592_000;

/** The cap of a token's life: 7 days (spec, "Limits"). */
export const tokenTtlSecondsMax = 604_800;

/** The life of a token whose `ttl_seconds` is 0 or absent: one hour. */
export const tokenTtlSecondsDefault = 3600;

/** What is left of a token's use at a moment; the first of these that applies is shown. */
export type TokenState = "revoked" | "expired" | "exhausted" | "active";

/** The state of a token, whatever its policy's. */
export const tokenState = (
  token: { revokedAt: Date | null; expiresAt: Date; maxUses: number; useCount: number },
  now: number,
): TokenState => {
  if (token.revokedAt !== null) return "revoked";
  if (token.expiresAt.getTime() <= now) return "expired";
  if (token.maxUses > 0 && token.useCount >= token.maxUses) return "exhausted";
  return "active";
};

/** Whether `identity` is one of the prefixes followed by the encoded device id, byte for byte. */
export const identityAllowed = (prefixes: readonly string[], deviceId: string, identity: string): boolean =>
  prefixes.some((prefix) => composeIdentity(prefix, deviceId) === identity);

/** Whether `os/arch` is among the allowed `os` and `os/arch`; an empty list allows any. */
export const platformAllowed = (allowed: readonly string[], platform: string): boolean =>
  allowed.length === 0 || allowed.includes(platform) || allowed.includes(platform.split("/")[0] ?? "");
