/**
 * The memory that ingest holds for what it has received. Invariants:
 * - The bytes of a frame are in the budget until it is committed. Reading pauses while frames fill three quarters of the limit, and of a host
 *   while its own fill a quarter: a few bytes of its blocks may be megabytes. What is already on its way may fill the rest, and beyond it is
 *   rejected.
 * - The bytes of an incomplete message are in the budget, bounded for each identity, from when they are read until the message is whole or its
 *   call ends. So are the rejections of acks that their client does not read. They pause nothing: streams that wait for each other's rest
 *   would wait for ever.
 * - A message that arrives too slowly ends its call. Only the time in which core waits for bytes counts, so that a sender does not pay for a
 *   pause of core.
 */
import type { Clock } from "#kit/clock.ts";
import { Problem } from "../problems.ts";

/** Bounds the bytes of frames that are received and not yet committed, and of messages that are incomplete. */
export type ByteBudget = ReturnType<typeof createByteBudget>;

/** Creates a budget of `bytesMax`. A frame larger than the whole budget fits when nothing else is reserved. */
export const createByteBudget = (bytesMax: number) => {
  const readableBelow = bytesMax * 0.75;
  const hostBelow = bytesMax * 0.25;
  const ofHosts = new Map<string, number>();
  let used = 0;
  let incomplete = 0;
  const waiting = new Set<() => void>();
  const addTo = (hostId: string, bytes: number) => {
    const bytesOfHost = (ofHosts.get(hostId) ?? 0) + bytes;
    if (bytesOfHost === 0) ofHosts.delete(hostId);
    else ofHosts.set(hostId, bytesOfHost);
  };
  return {
    /**
     * Returns undefined while frames, and those of this host, fill less than their parts of the limit; above, a promise that resolves when they
     * may, to ask again, or rejects with the reason of an aborted signal.
     */
    untilReadable(hostId: string, ...signals: AbortSignal[]): Promise<void> | undefined {
      if (used - incomplete < readableBelow && (ofHosts.get(hostId) ?? 0) < hostBelow)
        return undefined;
      const signal = AbortSignal.any(signals);
      return new Promise((resolve, reject) => {
        if (signal.aborted) return reject(signal.reason);
        const stop = () => {
          waiting.delete(proceed);
          reject(signal.reason);
        };
        const proceed = () => {
          signal.removeEventListener("abort", stop);
          resolve();
        };
        waiting.add(proceed);
        signal.addEventListener("abort", stop, { once: true });
      });
    },
    /** Reserves bytes if they fit; returns false, reserving nothing, if they do not. */
    reserve(bytes: number, of: "frame" | "incomplete" = "frame", hostId = ""): boolean {
      if (used > 0 && used + bytes > bytesMax) return false;
      used += bytes;
      if (of === "incomplete") incomplete += bytes;
      else if (hostId !== "") addTo(hostId, bytes);
      return true;
    },
    /** Releases reserved bytes. */
    release(bytes: number, of: "frame" | "incomplete" = "frame", hostId = "") {
      used -= bytes;
      if (of === "incomplete") incomplete -= bytes;
      else if (hostId !== "") addTo(hostId, -bytes);
      if (used - incomplete >= readableBelow) return;
      for (const proceed of waiting) {
        waiting.delete(proceed);
        proceed();
      }
    },
    /** Returns the reserved bytes. */
    used: () => used,
  };
};

/** Reserves bytes of frames. Returns their release, which may be called again, or null if they do not fit. */
export const reserveOnce = (
  budget: Pick<ByteBudget, "reserve" | "release">,
  bytes: number,
): (() => void) | null => {
  if (!budget.reserve(bytes)) return null;
  let isReserved = true;
  return () => {
    if (isReserved) budget.release(bytes);
    isReserved = false;
  };
};

type Bytes = Uint8Array<ArrayBuffer>;

/** Bytes of an identity in the budget, beside those of its other calls. */
export interface HeldBytes {
  /** Reserves bytes in place of those before, or throws `overloaded`. */
  set(bytes: number): void;
  /** Releases them for good. */
  end(): void;
}

/** The bytes that one call holds for its client. */
export interface Reception {
  /** Returns the chunks of the body. Throws `body_timeout` when the message that is incomplete arrives too slowly. */
  chunks(body: AsyncIterable<Bytes>): AsyncIterable<Bytes>;
  /** Reserves the bytes of the message that is incomplete, in place of those before, or throws `overloaded`. `isNew`: another one ended. */
  hold(bytes: number, isNew: boolean): void;
}

/** All messages that core is receiving. */
export type IncompleteMessages = ReturnType<typeof createIncompleteMessages>;

/** Limits of an incomplete message. */
interface IncompleteLimits {
  /** Bytes that one identity may hold. One message alone may be larger. */
  identityBytesMax: number;
  /** A sender from which nothing arrives for so long is too slow. */
  silentMs?: number;
  /** The average that a message must have after `silentMs`; a frame of 4 MiB has 271 s. */
  bytesPerSecondMin?: number;
}

interface Waiting {
  /** Reports whether the message is overdue. */
  isOverdue(now: number): boolean;
  fail(problem: Problem): void;
}

const tickMs = 1_000;

/** Creates an empty set of incomplete messages. */
export const createIncompleteMessages = ({
  budget,
  clock,
  identityBytesMax,
  silentMs = 15_000,
  bytesPerSecondMin = 16 * 1024,
}: IncompleteLimits & {
  budget: ByteBudget;
  clock: Pick<Clock, "monotonic" | "sleep">;
}) => {
  const heldBy = new Map<string, number>();
  const waiting = new Set<Waiting>();

  /** Reserves bytes of a call that has `own` already. */
  const reserve = (identity: string, bytes: number, own: number): void => {
    const held = heldBy.get(identity) ?? 0;
    if (held > own && held + bytes > identityBytesMax)
      throw new Problem("overloaded", { detail: "too many bytes of incomplete messages" });
    if (!budget.reserve(bytes, "incomplete")) throw new Problem("overloaded");
    heldBy.set(identity, held + bytes);
  };
  const release = (identity: string, bytes: number): void => {
    const left = (heldBy.get(identity) ?? 0) - bytes;
    if (left === 0) heldBy.delete(identity);
    else heldBy.set(identity, left);
    budget.release(bytes, "incomplete");
  };

  const hold = (identity: string): HeldBytes => {
    let held = 0;
    let hasEnded = false;
    const set = (bytes: number): void => {
      if (hasEnded) return;
      if (bytes > held) reserve(identity, bytes - held, held);
      else if (bytes < held) release(identity, held - bytes);
      held = bytes;
    };
    return {
      set,
      end() {
        set(0);
        hasEnded = true;
      },
    };
  };

  return {
    /** Starts to count bytes of an identity that are in no body. */
    hold,
    /** Starts the body of a call; `ended` aborts when the call has ended. The first message counts as incomplete from now on. */
    begin(identity: string, ended: AbortSignal): Reception {
      const bytesOfCall = hold(identity);
      let held = 0;
      let isIncomplete = true;
      let waitedMs = 0;
      const end = (): void => {
        isIncomplete = false;
        bytesOfCall.set(0);
        held = 0;
      };
      if (ended.aborted) end();
      else ended.addEventListener("abort", end, { once: true });

      const wait = (next: Promise<IteratorResult<Bytes>>): Promise<IteratorResult<Bytes>> =>
        new Promise((resolve, reject) => {
          const since = clock.monotonic();
          // The connection of a sender that has lost its power may stay for long after its call has failed.
          const fail = (error: unknown) => {
            end();
            reject(error);
          };
          const entry: Waiting = {
            isOverdue(now) {
              const waited = now - since;
              return (
                waited >= silentMs ||
                waitedMs + waited > silentMs + (held / bytesPerSecondMin) * 1_000
              );
            },
            fail,
          };
          waiting.add(entry);
          const stop = () => {
            waiting.delete(entry);
            waitedMs += clock.monotonic() - since;
          };
          next.finally(stop).then((result) => {
            if (result.done) end();
            resolve(result);
          }, fail);
        });

      return {
        chunks: (body) => ({
          [Symbol.asyncIterator]() {
            const iterator = body[Symbol.asyncIterator]();
            return {
              next: () => (isIncomplete ? wait(iterator.next()) : iterator.next()),
              return: async () => {
                end();
                return (await iterator.return?.()) ?? { done: true, value: undefined };
              },
            };
          },
        }),
        hold(bytes, isNew) {
          if (ended.aborted) return;
          if (isNew) waitedMs = 0;
          isIncomplete = bytes > 0;
          bytesOfCall.set(bytes);
          held = bytes;
        },
      };
    },
    /** Ends calls whose message is overdue, once a second, until the signal aborts. */
    async watch(signal: AbortSignal) {
      while (!signal.aborted) {
        await clock.sleep(tickMs, signal).catch(() => undefined);
        const now = clock.monotonic();
        for (const entry of waiting)
          if (entry.isOverdue(now)) {
            waiting.delete(entry);
            entry.fail(new Problem("body_timeout", { detail: "the message arrives too slowly" }));
          }
      }
    },
  };
};
