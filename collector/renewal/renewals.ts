/*
 * The renewal of one set of credentials, as a state machine. Its states are those of `RenewalReport.status`:
 *
 *   ok ──(plan.dueAt is reached, or trigger)──▶ due ──(an attempt fails)──▶ retrying ──(an attempt succeeds)──▶ the end
 *
 * - `failed` replaces any of them after `plan.overdueAt`, and `due` and `retrying` when core answered `reenroll` or `stop`. Attempts
 *   still continue.
 * - A wall clock that is set back before `plan.dueAt` leads back to `ok`, unless core triggered the renewal.
 * - After the end, the new credentials are on disk. The supervisor notices them and opens a core session with them, in which they are
 *   pending promotion (pending-promotion.ts).
 * - Pauses follow the monotonic clock: a wall clock that is set back must not turn minutes into days.
 */

import { fullJitterMs } from "#kit/backoff.ts";
import { type Clock, hourMs } from "#kit/clock.ts";
import { errorCode } from "#kit/describe-error.ts";
import type { Entropy } from "#kit/entropy.ts";
import type { Log } from "#kit/log.ts";
import type { HeartbeatReport } from "#proto/management/heartbeat.ts";
import type { Credentials } from "../identity/credentials.ts";
import { IdentityLockedError } from "../identity/identity-directory.ts";
import { ManagementError } from "../management/management-error.ts";

/** The state of a renewal. Times are milliseconds since the epoch. */
export interface RenewalReport {
  status: HeartbeatReport["renewal"]["status"];
  lastAttemptAt: number | null;
  nextAttemptAt: number | null;
  lastError: string | null;
}

/** The report for credentials that this process does not renew. */
export const renewalNotConfigured: RenewalReport = {
  status: "not_configured",
  lastAttemptAt: null,
  nextAttemptAt: null,
  lastError: null,
};

/** Renews one set of credentials. */
export interface Renewals {
  /**
   * Waits until the plan's time or `trigger`, then renews; retries after a failure, with growing pauses. Resolves after a success,
   * or when the signal aborts. Never rejects.
   */
  run(signal: AbortSignal): Promise<void>;
  /** Makes the renewal due now. Does not shorten the pause after a failure. */
  trigger(): void;
  status(): RenewalReport;
}

/** Wall time is checked this often, since clocks are set and hosts are suspended. */
const recheckMs = 30_000;
/** The wait while another process renews the same credentials. */
const lockedRetryMs = 5_000;

/** Describes why a renewal failed. Omits the message of a file system error, which has the path of the key. */
const describeFailure = (error: unknown): string => {
  if (!(error instanceof Error)) return "unknown failure";
  return "path" in error
    ? `the new credentials cannot be stored (${errorCode(error) ?? "no code"})`
    : error.message;
};

/** When a certificate is renewed; all times in milliseconds since the epoch. */
interface RenewalPlan {
  notBefore: number;
  notAfter: number;
  /** When the first attempt is made. */
  dueAt: number;
  /** When the status becomes `failed`: after 5/6 of the lifetime, for any reason. */
  overdueAt: number;
}

const jitterFraction = 0.1;
const retry = { baseMs: 5_000, leastMs: 1_000, mostMs: hourMs };

/**
 * Plans the renewal of a certificate (docs/collector-config.md): at `renewAfter`, or else at half of the lifetime, plus 0 to 10 % of
 * the lifetime, derived from the SHA-256 of the certificate. So every start computes the same time, and a fleet that was enrolled in
 * one hour renews spread out. No value of `renewAfter`, such as a damaged file's, makes it due after `overdueAt`.
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

/**
 * Creates the renewals of one set of credentials (docs/collector-config.md, "Renewal"). `renew` makes one attempt and throws if it fails.
 * `failures` is the number of renewals in a row that were rolled back; after any, the first attempt waits as a retry does.
 */
export const createRenewals = (options: {
  plan: RenewalPlan;
  renew: (signal: AbortSignal) => Promise<void>;
  clock: Clock;
  entropy: Entropy;
  log: Log;
  failures: number;
}): Renewals => {
  const { plan, renew, clock, entropy, log } = options;
  let triggered = false;
  let rejected = false;
  let { failures } = options;
  let lastAttemptAt: number | null = null;
  let lastError: string | null = null;
  let retryAt =
    failures > 0
      ? clock.monotonic() + retryDelayMs(plan, { attempt: failures, nowMs: clock.now() }, entropy)
      : Number.NEGATIVE_INFINITY;
  let wake = Promise.withResolvers<void>();

  const isDue = () => triggered || clock.now() >= plan.dueAt;

  const state = (): RenewalReport["status"] => {
    if (clock.now() >= plan.overdueAt || (isDue() && rejected)) return "failed";
    if (!isDue()) return "ok";
    return failures > 0 ? "retrying" : "due";
  };

  const attempt = async (signal: AbortSignal): Promise<boolean> => {
    lastAttemptAt = clock.now();
    try {
      await renew(signal);
      return true;
    } catch (error) {
      if (signal.aborted) return false;
      if (error instanceof IdentityLockedError) {
        retryAt = clock.monotonic() + lockedRetryMs;
        return false;
      }
      const failure = error instanceof ManagementError ? error.failure : undefined;
      rejected = failure?.action === "reenroll" || failure?.action === "stop";
      lastError = describeFailure(error);
      const { retryAfterSeconds } = failure ?? {};
      const delayMs = retryDelayMs(
        plan,
        { attempt: failures, nowMs: clock.now(), retryAfterSeconds },
        entropy,
      );
      failures += 1;
      retryAt = clock.monotonic() + delayMs;
      const fields = {
        err: error,
        code: failure?.code,
        action: failure?.action,
        retry_ms: delayMs,
      };
      log[rejected ? "error" : "warn"](fields, "the certificate could not be renewed; retrying");
      return false;
    }
  };

  const pause = async (ms: number, signal: AbortSignal) => {
    const over = new AbortController();
    const stop = () => over.abort();
    signal.addEventListener("abort", stop, { once: true });
    await Promise.race([clock.sleep(ms, over.signal).catch(() => undefined), wake.promise]);
    signal.removeEventListener("abort", stop);
    over.abort();
  };

  return {
    run: async (signal) => {
      while (!signal.aborted) {
        wake = Promise.withResolvers();
        const retryMs = retryAt - clock.monotonic();
        if (isDue() && retryMs <= 0) {
          if (await attempt(signal)) return;
        } else {
          await pause(
            Math.min(recheckMs, isDue() ? retryMs : Math.max(plan.dueAt - clock.now(), 1)),
            signal,
          );
        }
      }
    },
    trigger: () => {
      if (triggered) return;
      triggered = true;
      log.info({}, "core requested a renewal of the certificate");
      wake.resolve();
    },
    status: () => {
      const now = clock.now();
      const pausedMs = Math.max(0, retryAt - clock.monotonic());
      return {
        status: state(),
        lastAttemptAt,
        nextAttemptAt: isDue() ? Math.round(now + pausedMs) : plan.dueAt,
        lastError,
      };
    },
  };
};
