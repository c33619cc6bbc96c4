import type { Clock } from "../../kit/clock.ts";
import type { Entropy } from "../../kit/entropy.ts";
import type { Log } from "../../kit/log.ts";
import type { HeartbeatReport } from "../../proto/management/heartbeat.ts";
import { IdentityLockedError } from "../identity/lock.ts";
import { ManagementError } from "../management/management-error.ts";
import { type RenewalPlan, retryDelayMs } from "./renewal-plan.ts";

/** How the renewal of the pair in use stands; times in milliseconds since the epoch. */
export interface RenewalStatus {
  status: HeartbeatReport["renewal"]["status"];
  lastAttemptAt: number | null;
  nextAttemptAt: number | null;
  lastError: string | null;
}

/** A pair that is not renewed by this process. */
export const renewalNotConfigured: RenewalStatus = {
  status: "not_configured",
  lastAttemptAt: null,
  nextAttemptAt: null,
  lastError: null,
};

/** Renews one pair in time. */
export interface Renewals {
  /**
   * Waits until the plan says so, or `trigger` was called, and renews; after a failure again and again, with growing pauses.
   * Resolves when it is done, or when the signal aborts. Never rejects.
   */
  run(signal: AbortSignal): Promise<void>;
  /** Core wants it renewed now. Does not shorten the pause after a failure. */
  trigger(): void;
  status(): RenewalStatus;
}

/** Wall time is looked at this often: clocks are set, and hosts sleep. */
const recheckMs = 30_000;
/** Another process renews the same pair: when it is done, there is nothing left to do here. */
const lockedRetryMs = 5_000;

/**
 * The renewals of one pair by its plan (contract §8, "Renewal"). `renew` does it once, and throws what hindered it. `failures` is
 * how often in a row core did not know what it had issued: the first attempt is then made after a pause.
 */
export const createRenewals = (options: {
  plan: RenewalPlan;
  renew: (signal: AbortSignal) => Promise<void>;
  clock: Clock;
  entropy: Entropy;
  log: Log;
  failures?: number;
}): Renewals => {
  const { plan, renew, clock, entropy, log } = options;
  let triggered = false;
  let refused = false;
  let failures = options.failures ?? 0;
  let lastAttemptAt: number | null = null;
  let lastError: string | null = null;
  /** By the monotonic clock: when wall time is set back, a pause of minutes must not become one of days. */
  let retryAt =
    failures > 0
      ? clock.monotonic() + retryDelayMs(plan, { attempt: failures, nowMs: clock.now() }, entropy)
      : Number.NEGATIVE_INFINITY;
  let wake = Promise.withResolvers<void>();

  const isDue = () => triggered || clock.now() >= plan.dueAt;

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
      refused = failure?.action === "reenroll" || failure?.action === "stop";
      lastError = error instanceof Error ? error.message : "unknown failure";
      const { retryAfterSeconds } = failure ?? {};
      const delayMs = retryDelayMs(plan, { attempt: failures, nowMs: clock.now(), retryAfterSeconds }, entropy);
      failures += 1;
      retryAt = clock.monotonic() + delayMs;
      const fields = { err: error, code: failure?.code, action: failure?.action, retry_ms: delayMs };
      log[refused ? "error" : "warn"](fields, "the certificate could not be renewed; trying again");
      return false;
    }
  };

  const pause = async (ms: number, signal: AbortSignal): Promise<void> => {
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
          await pause(Math.min(recheckMs, isDue() ? retryMs : Math.max(plan.dueAt - clock.now(), 1)), signal);
        }
      }
    },
    trigger: () => {
      if (triggered) return;
      triggered = true;
      log.info({}, "core asks for a renewal of the certificate");
      wake.resolve();
    },
    status: () => {
      const now = clock.now();
      const due = isDue();
      const pausedMs = Math.max(0, retryAt - clock.monotonic());
      const failed = now >= plan.overdueAt || (due && refused);
      const waiting = failures > 0 ? "retrying" : "due";
      return {
        status: failed ? "failed" : due ? waiting : "ok",
        lastAttemptAt,
        nextAttemptAt: due ? Math.round(now + pausedMs) : plan.dueAt,
        lastError,
      };
    },
  };
};
