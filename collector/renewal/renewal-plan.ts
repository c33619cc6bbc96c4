import { fullJitterMs } from "#kit/backoff.ts";
import type { Entropy } from "#kit/entropy.ts";
import type { Credentials } from "../identity/credentials.ts";

/** When a certificate is renewed; all times in milliseconds since the epoch. */
export interface RenewalPlan {
  notBefore: number;
  notAfter: number;
  /** When the first attempt is made. */
  dueAt: number;
  /** When the status becomes `failed`: after 5/6 of the lifetime, for any reason. */
  overdueAt: number;
}

const jitterFraction = 0.1;
const retry = { baseMs: 5_000, leastMs: 1_000, mostMs: 3_600_000 };

/**
 * Plans the renewal of a certificate (docs/collector-config.md): at `renewAfter`, or else at half of the lifetime, plus 0 to 10 % of
 * the lifetime, derived from the SHA-256 of the certificate. So every start computes the same time, and a fleet that was enrolled in
 * one hour renews spread out. No `renewAfter`, as of a damaged file, makes it due after `overdueAt`.
 */
export const planRenewal = (
  { certificate, fingerprintSha256 }: Pick<Credentials, "certificate" | "fingerprintSha256">,
  renewAfter: number | undefined,
): RenewalPlan => {
  const notBefore = certificate.validFromDate.getTime();
  const notAfter = certificate.validToDate.getTime();
  const lifetimeMs = notAfter - notBefore;
  const overdueAt = notBefore + Math.floor((lifetimeMs * 5) / 6);
  const jitter = Number.parseInt(fingerprintSha256.slice(0, 8), 16) / 0x1_0000_0000;
  return {
    notBefore,
    notAfter,
    dueAt: Math.min(
      overdueAt,
      Math.floor((renewAfter ?? notBefore + lifetimeMs / 2) + jitter * jitterFraction * lifetimeMs),
    ),
    overdueAt,
  };
};

/**
 * Computes the wait after failure number `attempt`, counted from 0: full jitter, at most an hour and 1/10 of the remaining lifetime, at
 * least 1 s. An expired certificate counts as a fresh one: waiting no longer costs anything, and core must not be flooded.
 */
export const retryDelayMs = (
  { notBefore, notAfter }: Pick<RenewalPlan, "notBefore" | "notAfter">,
  {
    attempt,
    nowMs,
    retryAfterSeconds = 0,
  }: { attempt: number; nowMs: number; retryAfterSeconds?: number | undefined },
  entropy: Entropy,
): number => {
  const lifetimeMs = notAfter - notBefore;
  const leftMs = nowMs < notAfter ? Math.min(notAfter - nowMs, lifetimeMs) : lifetimeMs;
  const capMs = Math.min(retry.mostMs, leftMs / 10);
  const jittered = fullJitterMs({ attempt, baseMs: retry.baseMs, capMs, entropy });
  return Math.max(retry.leastMs, Math.min(capMs, Math.max(jittered, retryAfterSeconds * 1000)));
};
