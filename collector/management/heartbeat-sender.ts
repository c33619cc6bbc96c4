import type { Clock } from "../../kit/clock.ts";
import { type Entropy, fraction } from "../../kit/entropy.ts";
import type { Log } from "../../kit/log.ts";
import { createTokenBuckets } from "../../kit/token-buckets.ts";
import type { HeartbeatResponse } from "../../proto/management/heartbeat.ts";
import { withReenrollAdvice } from "../identity/reenroll-advice.ts";
import { ManagementError } from "./management-error.ts";

const intervalSecondsMax = 3600;
/** Heartbeats that changes cause, in a minute; core accepts six in all. */
const triggersOfMinuteMax = 3;

/** The parts of core's answer to a heartbeat that the host acts on. */
export type HeartbeatReply = Omit<HeartbeatResponse, "server_time">;

/** The status of the heartbeats. */
export interface HeartbeatStatus {
  /** Milliseconds since the epoch. */
  lastSuccessAt: number | null;
  /** Why the last one failed, or that it needed core's clock; null otherwise. */
  lastError: string | null;
}

/** Sends heartbeats. */
export interface HeartbeatSender {
  /**
   * Sends heartbeats until the signal aborts, and resolves then. Sends the first at once and the next after the interval ±10 %. A
   * failed one is logged and not repeated: the next one carries newer state. `Retry-After` lengthens the wait, which `retry` ends. Never
   * rejects.
   */
  run(signal: AbortSignal): Promise<void>;
  /** Sends the next one now, at most three times in a minute, and not while heartbeats fail. */
  trigger(): void;
  /** Sends the next one now if the last one failed, as often as `trigger`: core answers again. */
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
  clock: Clock;
  entropy: Entropy;
  log: Log;
  onAnswer: (answer: HeartbeatReply) => void;
  /** Called with core's problem code; undefined for any other failure. */
  onFailure: (code: string | undefined) => void;
}): HeartbeatSender => {
  const { send, skewSeconds, clock, entropy, log, onAnswer, onFailure } = options;
  const status: HeartbeatStatus = { lastSuccessAt: options.lastSuccessAt, lastError: null };
  let intervalSeconds = options.intervalSeconds;
  let loggedSkewSeconds = 0;
  let failing = false;
  const triggers = createTokenBuckets({ burst: triggersOfMinuteMax, perSecond: triggersOfMinuteMax / 60, clock });
  let triggered = false;
  let wake = () => {};

  const succeeded = (answer: HeartbeatReply) => {
    intervalSeconds = Math.min(Math.max(answer.next_heartbeat_seconds, 1), intervalSecondsMax);
    status.lastSuccessAt = clock.now();
    const skew = skewSeconds();
    status.lastError = skew === 0 ? null : `clock_skew: this host's clock is ${skew} s ahead of core's`;
    if (skew !== loggedSkewSeconds) log.warn({ skew_seconds: skew }, "this host's clock differs from core's");
    loggedSkewSeconds = skew;
    if (failing) log.info({}, "heartbeats reach core again");
    failing = false;
    onAnswer(answer);
  };

  /** Returns the least time to wait, in seconds. */
  const failed = (error: unknown): number => {
    const failure = error instanceof ManagementError ? error.failure : undefined;
    failing = true;
    status.lastError = withReenrollAdvice(failure?.code, error instanceof Error ? error.message : "unknown failure");
    log.warn({ err: error, code: failure?.code, action: failure?.action }, "heartbeat failed");
    onFailure(failure?.code);
    return failure?.retryAfterSeconds ?? 0;
  };

  const sendNow = (): void => {
    if (triggered || !triggers.take("")) return;
    triggered = true;
    wake();
  };

  const pause = async (ms: number, signal: AbortSignal): Promise<void> => {
    if (triggered) return;
    const over = new AbortController();
    wake = () => over.abort();
    signal.addEventListener("abort", wake, { once: true });
    await clock.sleep(ms, over.signal).catch(() => undefined);
    signal.removeEventListener("abort", wake);
  };

  return {
    run: async (signal) => {
      while (!signal.aborted) {
        let waitSecondsMin = 0;
        triggered = false;
        try {
          succeeded(await send());
        } catch (error) {
          if (signal.aborted) return;
          waitSecondsMin = failed(error);
        }
        const jittered = intervalSeconds * (0.9 + 0.2 * fraction(entropy));
        await pause(Math.round(Math.max(jittered, waitSecondsMin) * 1000), signal);
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
