import type { Clock } from "../../kit/clock.ts";
import { Problem } from "../problems.ts";
import type { Admission, Caller } from "./admission.ts";

/** An open stream. Its signal aborts with the Problem that ends it. */
export interface OpenStream {
  signal: AbortSignal;
  /** Removes the stream; idempotent. */
  leave(): void;
}

/** The open streams of this replica: bounded for each identity, rechecked, and ended when their caller may send no longer. */
export interface OpenStreams {
  /** Adds a stream, or throws `too_many_streams`. */
  enter(caller: Caller): OpenStream;
  /** Triggers a recheck at once, instead of at the next interval. */
  triggerRecheck(): void;
  /** Checks expiry every second and the database every `recheckMs`, until the signal aborts. */
  watch(signal: AbortSignal): Promise<void>;
  count(): number;
  /** Ends all streams, and rejects new ones, with `shutting_down`. */
  stop(): void;
}

const tickMs = 1_000;

/** Makes an empty set of open streams. */
export const createOpenStreams = ({
  admission,
  clock,
  onError,
  streamsOfIdentityMax = 8,
  recheckMs = 4_000,
}: {
  admission: Pick<Admission, "recheck" | "expiryFault">;
  clock: Clock;
  /** A recheck failed (the database is unavailable); it runs again at the next tick. */
  onError(cause: unknown): void;
  streamsOfIdentityMax?: number;
  recheckMs?: number;
}): OpenStreams => {
  const open = new Map<Caller, AbortController>();
  const counts = new Map<string, number>();
  let wake = new AbortController();
  let isTriggered = false;
  let stopped = false;

  const endExpired = (): void => {
    for (const [caller, controller] of open) {
      const fault = admission.expiryFault(caller);
      if (fault) controller.abort(fault);
    }
  };
  const endRefused = async (): Promise<void> => {
    for (const [caller, fault] of await admission.recheck([...open.keys()])) open.get(caller)?.abort(fault);
  };

  return {
    enter(admitted) {
      if (stopped) throw new Problem("shutting_down");
      const { identity } = admitted;
      const streams = counts.get(identity) ?? 0;
      if (streams >= streamsOfIdentityMax)
        throw new Problem("too_many_streams", { detail: `an identity may have ${streamsOfIdentityMax} open streams` });
      counts.set(identity, streams + 1);
      const caller = { ...admitted };
      const controller = new AbortController();
      open.set(caller, controller);
      return {
        signal: controller.signal,
        leave() {
          if (!open.delete(caller)) return;
          const left = (counts.get(identity) ?? 1) - 1;
          if (left === 0) counts.delete(identity);
          else counts.set(identity, left);
        },
      };
    },
    triggerRecheck() {
      isTriggered = true;
      wake.abort();
    },
    async watch(signal) {
      let checkedAt = clock.monotonic();
      while (!signal.aborted) {
        wake = new AbortController();
        if (!isTriggered) await clock.sleep(tickMs, AbortSignal.any([signal, wake.signal])).catch(() => undefined);
        if (signal.aborted) return;
        endExpired();
        if (!isTriggered && clock.monotonic() - checkedAt < recheckMs) continue;
        isTriggered = false;
        checkedAt = clock.monotonic();
        await endRefused().catch(onError);
      }
    },
    count: () => open.size,
    stop() {
      stopped = true;
      for (const controller of open.values()) controller.abort(new Problem("shutting_down"));
    },
  };
};
