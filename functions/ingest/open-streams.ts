import type { Clock } from "../../kit/clock.ts";
import { Problem } from "../problems.ts";
import type { Admission, Caller } from "./admission.ts";

/** A stream that is open: its signal aborts with the Problem that cuts it. */
export interface OpenStream {
  signal: AbortSignal;
  /** The stream has ended; idempotent. */
  leave(): void;
}

/** The open streams of this replica: bounded for each identity, rechecked, and cut when their caller may send no longer. */
export interface OpenStreams {
  /** Enters a stream, or throws `too_many_streams`. */
  enter(caller: Caller): OpenStream;
  /** Rechecks soon instead of at the next interval: something was revoked. */
  hasten(): void;
  /** Watches until the signal aborts: expiry every second, standing in the database every `recheckMs`. */
  watch(signal: AbortSignal): Promise<void>;
  count(): number;
  /** Cuts all of them, and refuses new ones, with `shutting_down`. */
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
  /** A recheck failed (the database is away); it runs again at the next tick. */
  onError(cause: unknown): void;
  streamsOfIdentityMax?: number;
  recheckMs?: number;
}): OpenStreams => {
  const open = new Map<Caller, AbortController>();
  const counts = new Map<string, number>();
  let wake = new AbortController();
  let hastened = false;
  let stopped = false;

  const cutExpired = (): void => {
    for (const [caller, controller] of open) {
      const fault = admission.expiryFault(caller);
      if (fault) controller.abort(fault);
    }
  };
  const cutRefused = async (): Promise<void> => {
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
    hasten() {
      hastened = true;
      wake.abort();
    },
    async watch(signal) {
      let checkedAt = clock.monotonic();
      while (!signal.aborted) {
        wake = new AbortController();
        if (!hastened) await clock.sleep(tickMs, AbortSignal.any([signal, wake.signal])).catch(() => undefined);
        if (signal.aborted) return;
        cutExpired();
        if (!hastened && clock.monotonic() - checkedAt < recheckMs) continue;
        hastened = false;
        checkedAt = clock.monotonic();
        await cutRefused().catch(onError);
      }
    },
    count: () => open.size,
    stop() {
      stopped = true;
      for (const controller of open.values()) controller.abort(new Problem("shutting_down"));
    },
  };
};
