import type { Clock } from "#kit/clock.ts";
import { type Entropy, fraction } from "#kit/entropy.ts";
import type { Log } from "#kit/log.ts";
import { createTokenBuckets, type TokenBuckets } from "#kit/token-buckets.ts";
import type { CoreProblemCode } from "#proto/gen/problem-codes.ts";
import type { HeartbeatResponse } from "#proto/management/heartbeat.ts";
import { withReenrollAdvice } from "../identity/reenroll-advice.ts";
import { ManagementError } from "./management-error.ts";

const intervalSecondsMax = 3600;
/** The most heartbeats that changes and new sessions trigger in a minute; a core of version 0.3 accepts six a minute in all. */
const triggersOfMinuteMax = 3;

/** Creates the limit of triggered heartbeats, which the consecutive senders of a process share. */
export const createHeartbeatTurns = (clock: Pick<Clock, "monotonic">): TokenBuckets =>
  createTokenBuckets({ burst: triggersOfMinuteMax, perSecond: triggersOfMinuteMax / 60, clock });

/** The members of core's response to a heartbeat that the host acts on. */
export type HeartbeatReply = Omit<HeartbeatResponse, "server_time">;

/** The status of the heartbeats. */
export interface HeartbeatStatus {
  /** Milliseconds since the epoch. */
  lastSuccessAt: number | null;
  /** Why the last one failed, or that it needed core's clock; null otherwise. */
  lastError: string | null;
}

/** Sends heartbeats. */
interface HeartbeatSender {
  /**
   * Sends heartbeats until the signal aborts, and then resolves. Sends the first as if triggered, and each next one after the interval ±10 %.
   * Logs a failed one and does not repeat it: the next one carries newer state. `Retry-After` lengthens the wait, which `retry` ends; after
   * `rate_limited` it is the wait. Never rejects.
   */
  run(signal: AbortSignal): Promise<void>;
  /** Sends the next one as soon as the limit allows: one for all calls until then. Does nothing while heartbeats fail. */
  trigger(): void;
  /** Triggers if the last one failed; call it when core is available again. */
  retry(): void;
  status(): HeartbeatStatus;
}

/** Creates the heartbeat sender of a core session. `intervalSeconds` applies until core's first answer names another interval. */
export const createHeartbeatSender = (options: {
  send: () => Promise<HeartbeatReply>;
  /** By how much this host's clock is ahead of core's; 0 while the host's own clock is used. */
  skewSeconds: () => number;
  intervalSeconds: number;
  /** From the previous session. */
  lastSuccessAt: number | null;
  turns: TokenBuckets;
  clock: Clock;
  entropy: Entropy;
  log: Log;
  onAnswer: (answer: HeartbeatReply) => void;
  /** Called with core's problem code; undefined for any other failure. */
  onFailure: (code: string | undefined) => void;
}): HeartbeatSender => {
  const { send, skewSeconds, turns, clock, entropy, log, onAnswer, onFailure } = options;
  const status: HeartbeatStatus = { lastSuccessAt: options.lastSuccessAt, lastError: null };
  let intervalSeconds = options.intervalSeconds;
  let loggedSkewSeconds = 0;
  let failing = false;
  let triggered = true;
  let wake = () => {};

  const recordSuccess = (answer: HeartbeatReply) => {
    intervalSeconds = Math.min(Math.max(answer.next_heartbeat_seconds, 1), intervalSecondsMax);
    status.lastSuccessAt = clock.now();
    const skew = skewSeconds();
    status.lastError =
      skew === 0 ? null : `clock_skew: this host's clock is ${skew} s ahead of core's`;
    if (skew !== loggedSkewSeconds)
      log.warn({ skew_seconds: skew }, "this host's clock differs from core's");
    loggedSkewSeconds = skew;
    if (failing) log.info({}, "heartbeats reach core again");
    failing = false;
    onAnswer(answer);
  };

  /** Returns the seconds to wait. */
  const recordFailure = (error: unknown, intervalSeconds: number): number => {
    const failure = error instanceof ManagementError ? error.failure : undefined;
    failing = true;
    status.lastError = withReenrollAdvice(
      failure?.code,
      error instanceof Error ? error.message : "unknown failure",
    );
    log.warn({ err: error, code: failure?.code, action: failure?.action }, "heartbeat failed");
    onFailure(failure?.code);
    const retryAfterSeconds = failure?.retryAfterSeconds ?? 0;
    // Only core's limit delays the newest report.
    if (failure?.code === ("rate_limited" satisfies CoreProblemCode) && retryAfterSeconds > 0)
      return retryAfterSeconds;
    return Math.max(intervalSeconds, retryAfterSeconds);
  };

  const sendNow = () => {
    triggered = true;
    wake();
  };

  /** Waits for `ms`, or until the limit allows a triggered heartbeat. */
  const pause = async (ms: number, signal: AbortSignal): Promise<void> => {
    const endsAt = clock.monotonic() + ms;
    for (let leftMs = ms; leftMs > 0 && !signal.aborted; leftMs = endsAt - clock.monotonic()) {
      if (triggered && turns.take("")) return;
      const over = new AbortController();
      wake = () => over.abort();
      signal.addEventListener("abort", wake, { once: true });
      await clock
        .sleep(triggered ? Math.min(leftMs, turns.waitMs("")) : leftMs, over.signal)
        .catch(() => undefined);
      signal.removeEventListener("abort", wake);
    }
  };

  return {
    run: async (signal) => {
      let waitSeconds = intervalSeconds;
      for (;;) {
        await pause(Math.round(waitSeconds * 1000), signal);
        if (signal.aborted) return;
        triggered = false;
        const jitter = 0.9 + 0.2 * fraction(entropy);
        try {
          recordSuccess(await send());
          waitSeconds = intervalSeconds * jitter;
        } catch (error) {
          if (signal.aborted) return;
          waitSeconds = recordFailure(error, intervalSeconds * jitter);
        }
      }
    },
    trigger: () => {
      if (!failing) sendNow();
    },
    retry: () => {
      if (failing) sendNow();
    },
    status: () => ({ ...status }),
  };
};
