import type { Clock } from "../../kit/clock.ts";
import { type Entropy, fraction } from "../../kit/entropy.ts";
import type { Log } from "../../kit/log.ts";
import type { HeartbeatResponse } from "../../proto/management/heartbeat.ts";
import { ManagementError } from "./management-error.ts";

const intervalSecondsMax = 3600;

/**
 * Sends heartbeats until the signal aborts; resolves then. The first at once, the next after the interval ±10 %; the interval is
 * what core's last answer said, and `intervalSeconds` before the first. A failed one is logged and not made up for: the next
 * tells the newest state. `Retry-After` lengthens the wait. Never rejects.
 */
export const runHeartbeats = async (options: {
  send: (signal: AbortSignal) => Promise<HeartbeatResponse>;
  intervalSeconds: number;
  clock: Clock;
  entropy: Entropy;
  log: Log;
  signal: AbortSignal;
}): Promise<void> => {
  const { send, clock, entropy, log, signal } = options;
  let intervalSeconds = options.intervalSeconds;
  let failing = false;
  while (!signal.aborted) {
    let waitSecondsMin = 0;
    try {
      const answer = await send(signal);
      intervalSeconds = Math.min(Math.max(answer.next_heartbeat_seconds, 1), intervalSecondsMax);
      if (failing) log.info({}, "heartbeats reach core again");
      failing = false;
    } catch (error) {
      if (signal.aborted) return;
      failing = true;
      const failure = error instanceof ManagementError ? error.failure : undefined;
      log.warn({ err: error, code: failure?.code, action: failure?.action }, "heartbeat failed");
      waitSecondsMin = failure?.retryAfterSeconds ?? 0;
    }
    const jittered = intervalSeconds * (0.9 + 0.2 * fraction(entropy));
    await clock.sleep(Math.round(Math.max(jittered, waitSecondsMin) * 1000), signal).catch(() => undefined);
  }
};
