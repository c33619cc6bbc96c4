import type { Clock } from "#kit/clock.ts";
import type { ChunkOutcome } from "../store/export/positions.ts";
import type { PackedBlock } from "../store/export/read-envelopes.ts";
import { sumOutcomes } from "./create-delivery.ts";
import type { ExportChunk, ExportSource } from "./source.ts";

/** The dependencies of a pump. */
export interface PumpOptions {
  source: Pick<ExportSource, "read">;
  /** Delivers blocks of whole hosts, in their order. Rejects when the signal aborts. */
  deliverAll(blocks: Iterable<PackedBlock>, signal: AbortSignal): Promise<ChunkOutcome>;
  /** How many deliveries run at once. */
  lanes: number;
  bufferBytesMax: number;
  clock: Pick<Clock, "sleep">;
  /** Ends reading; chunks that were read are still delivered. */
  stopping: AbortSignal;
  /** Ends everything: the next reader delivers unfinished chunks again. */
  signal: AbortSignal;
  observe: { buffered(bytes: number): void; committed(outcome: ChunkOutcome): void };
}

const pollMs = 500;

/**
 * Moves envelopes from a source to a backend until `stopping` aborts. All envelopes of a host go through one lane, one after the other, so
 * the order of each queue is kept while hosts do not wait for those of other lanes. Reading waits while `bufferBytesMax` is in memory, but not
 * for a single chunk that exceeds it; a chunk is committed once it and all before it are delivered. Rejects with the first failure of the
 * source, or when `signal` aborts; all deliveries end with it.
 */
export const pumpChunks = async (options: PumpOptions): Promise<void> => {
  const { source, bufferBytesMax, clock, stopping, observe } = options;
  const failed = new AbortController();
  const signal = AbortSignal.any([options.signal, failed.signal]);
  const lanes = Array.from({ length: options.lanes }, () => Promise.resolve());
  let committed = Promise.resolve();
  let buffered = 0;
  let chunks = 0;
  let freed = Promise.withResolvers<void>();
  const fail = (cause: unknown) => failed.abort(cause);

  const dispatch = async (chunk: ExportChunk): Promise<ChunkOutcome> => {
    const parts = partsOf(chunk, lanes.length);
    const outcomes = [...parts].map(([lane, queues]) => {
      const outcome = (lanes[lane] ?? Promise.resolve()).then(() => {
        signal.throwIfAborted();
        return options.deliverAll(queues.flat(), signal);
      });
      lanes[lane] = outcome.then(() => undefined, fail);
      return outcome;
    });
    return sumOutcomes(await Promise.all(outcomes));
  };

  const finish = (chunk: ExportChunk, delivered: Promise<ChunkOutcome>) => {
    committed = committed.then(async () => {
      const outcome = await delivered;
      signal.throwIfAborted();
      await chunk.commit(outcome);
      buffered -= chunk.bytes;
      chunks -= 1;
      observe.buffered(buffered);
      observe.committed(outcome);
      freed.resolve();
      freed = Promise.withResolvers();
    });
    for (const promise of [delivered, committed]) promise.catch(fail);
  };

  const move = async () => {
    while (!stopping.aborted) {
      signal.throwIfAborted();
      if (buffered >= bufferBytesMax && chunks > 1) {
        await unlessAborted(freed.promise, signal);
        continue;
      }
      const chunk = await unlessAborted(source.read(), signal);
      if (chunk === null) {
        await clock.sleep(pollMs, AbortSignal.any([stopping, signal])).catch(() => undefined);
        continue;
      }
      buffered += chunk.bytes;
      chunks += 1;
      observe.buffered(buffered);
      finish(chunk, dispatch(chunk));
    }
    signal.throwIfAborted();
    await unlessAborted(committed, signal);
  };

  return move().catch((cause: unknown) => {
    fail(cause);
    throw cause;
  });
};

/** Settles as `promise` does, or rejects once `signal` aborts. Racing with one shared promise would leak memory for each call. */
const unlessAborted = <Value>(promise: Promise<Value>, signal: AbortSignal): Promise<Value> => {
  const aborted = Promise.withResolvers<never>();
  const stop = () => aborted.reject(signal.reason);
  signal.addEventListener("abort", stop, { once: true });
  return Promise.race([promise, aborted.promise]).finally(() =>
    signal.removeEventListener("abort", stop),
  );
};

/** Groups the queues of a chunk by lane: all of a host in one. */
const partsOf = ({ queues }: ExportChunk, lanes: number) =>
  Map.groupBy(
    queues.filter((queue) => queue.length > 0),
    ([first]) => laneOf(first?.hostId ?? "", lanes),
  );

/** FNV-1a, so that hosts spread evenly. */
const laneOf = (hostId: string, lanes: number) => {
  let hash = 0x811c9dc5;
  for (let at = 0; at < hostId.length; at++)
    hash = Math.imul(hash ^ hostId.charCodeAt(at), 0x01000193);
  return (hash >>> 0) % lanes;
};
