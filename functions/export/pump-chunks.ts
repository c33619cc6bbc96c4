import type { Clock } from "../../kit/clock.ts";
import type { StoredEnvelope } from "../store/export/read-envelopes.ts";
import { sumOutcomes } from "./deliver.ts";
import type { ChunkOutcome, ExportChunk, ExportSource } from "./source.ts";

/** The dependencies of a pump. */
export interface PumpOptions {
  source: ExportSource;
  /** Delivers envelopes of whole hosts, in their order. */
  deliverAll(envelopes: Iterable<StoredEnvelope>): Promise<ChunkOutcome>;
  /** How many deliveries run at once. */
  lanes: number;
  bufferBytesMax: number;
  clock: Pick<Clock, "sleep">;
  /** Ends reading; what was read is delivered. */
  stopping: AbortSignal;
  /** Ends everything: what is under way is delivered again by the next reader. */
  signal: AbortSignal;
  observe: { buffered(bytes: number): void; committed(outcome: ChunkOutcome): void };
}

const pollMs = 500;

/**
 * Moves envelopes from a source to a backend until `stopping` aborts. All envelopes of a host go through one lane, one after the other, so
 * the order of each queue is kept while hosts do not wait for those of other lanes. Reading waits while `bufferBytesMax` is in memory; a
 * chunk is committed once it and all before it are delivered. Rejects with the first failure of the source, or when `signal` aborts.
 */
export const pumpChunks = async (options: PumpOptions): Promise<void> => {
  const { source, bufferBytesMax, clock, stopping, observe } = options;
  const failed = new AbortController();
  const signal = AbortSignal.any([options.signal, failed.signal]);
  const lanes = Array.from({ length: options.lanes }, () => Promise.resolve());
  let committed = Promise.resolve();
  let buffered = 0;
  let freed = Promise.withResolvers<void>();

  const dispatch = async (chunk: ExportChunk): Promise<ChunkOutcome> => {
    const parts = partsOf(chunk, lanes.length);
    const outcomes = [...parts].map(([lane, queues]) => {
      const outcome = (lanes[lane] ?? Promise.resolve()).then(() => {
        signal.throwIfAborted();
        return options.deliverAll(queues.flat());
      });
      lanes[lane] = outcome.then(() => undefined);
      return outcome;
    });
    return sumOutcomes(await Promise.all(outcomes));
  };
  const fail = (cause: unknown): void => failed.abort(cause);

  const finish = (chunk: ExportChunk, delivered: Promise<ChunkOutcome>): void => {
    committed = committed.then(async () => {
      const outcome = await delivered;
      signal.throwIfAborted();
      await source.commit(chunk, outcome);
      buffered -= chunk.bytes;
      observe.buffered(buffered);
      observe.committed(outcome);
      freed.resolve();
      freed = Promise.withResolvers();
    });
    for (const promise of [delivered, committed]) promise.catch(fail);
  };
  const aborted = new Promise<never>((_, reject) =>
    signal.addEventListener("abort", () => reject(signal.reason), { once: true }),
  );
  aborted.catch(() => undefined);

  while (!stopping.aborted) {
    signal.throwIfAborted();
    if (buffered >= bufferBytesMax) {
      await Promise.race([freed.promise, aborted]);
      continue;
    }
    const chunk = await Promise.race([source.read(), aborted]);
    if (chunk === null) {
      await clock.sleep(pollMs, AbortSignal.any([stopping, signal])).catch(() => undefined);
      continue;
    }
    buffered += chunk.bytes;
    observe.buffered(buffered);
    finish(chunk, dispatch(chunk));
  }
  await Promise.race([committed, aborted]);
};

/** Groups the queues of a chunk by lane: all of a host in one. */
const partsOf = ({ queues }: ExportChunk, lanes: number): Map<number, (readonly StoredEnvelope[])[]> => {
  const parts = new Map<number, (readonly StoredEnvelope[])[]>();
  for (const queue of queues) {
    const [first] = queue;
    if (first === undefined) continue;
    const lane = laneOf(first.hostId, lanes);
    const part = parts.get(lane);
    if (part) part.push(queue);
    else parts.set(lane, [queue]);
  }
  return parts;
};

/** FNV-1a, so that hosts spread evenly. */
const laneOf = (hostId: string, lanes: number): number => {
  let hash = 0x811c9dc5;
  for (let at = 0; at < hostId.length; at++) hash = Math.imul(hash ^ hostId.charCodeAt(at), 0x01000193);
  return (hash >>> 0) % lanes;
};
