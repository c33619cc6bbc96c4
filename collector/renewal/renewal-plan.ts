import { fullJitterMs } from "../../kit/backoff.ts";
import type { Entropy } from "../../kit/entropy.ts";
import type { Credentials } from "../identity/credentials.ts";

/** When a certificate is renewed; all times in milliseconds since the epoch. */
export interface RenewalPlan {
  notBefore: number;
  notAfter: number;
  /** When the first attempt is made. */
  dueAt: number;
  /** From here on a certificate that is not renewed yet counts as failed, whatever the reason: 5/6 of its lifetime. */
  overdueAt: number;
}

const jitterFraction = 0.1;
const retry = { baseMs: 5_000, leastMs: 1_000, mostMs: 3_600_000 };

/**
 * The plan of a certificate (contract §8): `renewAfter` as core said it, else half of the lifetime, plus 0 to 10 % of the lifetime
 * by the SHA-256 of the certificate. The same on every start, and spread over a fleet that was enrolled in one hour.
 */
export const planRenewal = (
  { certificate, fingerprintSha256 }: Pick<Credentials, "certificate" | "fingerprintSha256">,
  renewAfter: number | undefined,
): RenewalPlan => {
  const notBefore = certificate.validFromDate.getTime();
  const notAfter = certificate.validToDate.getTime();
  const lifetimeMs = notAfter - notBefore;
  const jitter = Number.parseInt(fingerprintSha256.slice(0, 8), 16) / 0x1_0000_0000;
  return {
    notBefore,
    notAfter,
    dueAt: Math.floor((renewAfter ?? notBefore + lifetimeMs / 2) + jitter * jitterFraction * lifetimeMs),
    overdueAt: notBefore + Math.floor((lifetimeMs * 5) / 6),
  };
};

/**
 * How long to wait after failure number `attempt`, from 0: full jitter, at most 1/10 of what is left of the certificate and an
 * hour, at least 1 s. An expired one counts as fresh here: nothing is lost any more by waiting, and core must not be flooded.
 */
export const retryDelayMs = (
  { notBefore, notAfter }: Pick<RenewalPlan, "notBefore" | "notAfter">,
  { attempt, nowMs, retryAfterSeconds = 0 }: { attempt: number; nowMs: number; retryAfterSeconds?: number | undefined },
  entropy: Entropy,
): number => {
  const lifetimeMs = notAfter - notBefore;
  const leftMs = nowMs < notAfter ? Math.min(notAfter - nowMs, lifetimeMs) : lifetimeMs;
  const capMs = Math.min(retry.mostMs, leftMs / 10);
  const jittered = fullJitterMs({ attempt, baseMs: retry.baseMs, capMs, entropy });
  return Math.max(retry.leastMs, Math.min(capMs, Math.max(jittered, retryAfterSeconds * 1000)));
};
