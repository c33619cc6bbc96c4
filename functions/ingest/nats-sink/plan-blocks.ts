/** Which messages store a frame: each is a block of envelopes of one kind. */

import type { FrameToCommit } from "#functions/store/ingest/decide-batch.ts";
import { type EnvelopeRun, partitionRun } from "#functions/store/ingest/envelope-run.ts";
import { type BlockCodec, encodeRun } from "#functions/store/ingest/stored-envelope.ts";

/** A block that one message stores. */
export interface PlannedBlock extends ReturnType<typeof encodeRun> {
  /** The kind in the subject; that of the envelopes, or one for all further kinds of a queue. */
  chain: string;
  kind: string;
  run: EnvelopeRun;
  /** The queue's cursor once the block and all before it are stored. */
  cursor: bigint;
}

/** What is stored of a queue, and where. */
interface PlanContext {
  cursor: bigint;
  chainOf(kind: string): string;
  /** Returns the sequence up to which a chain has all envelopes of its kinds. */
  storedThrough(chain: string): bigint;
  /** Bytes that a message has room for. */
  bytesMax: number;
  codec: Pick<BlockCodec, "compress">;
}

/**
 * Returns the blocks that store what is not stored of a frame, in the order in which they are to be stored. A block that would not fit its
 * message is split; a single envelope that does not fit is left to the publisher. A frame of one kind, of which nothing is stored, keeps the
 * bytes of its sender.
 */
export const planBlocks = (frame: FrameToCommit, context: PlanContext): PlannedBlock[] => {
  const planned = runsOf(frame.run, context)
    .flatMap(({ chain, run }) =>
      splitToFit(run, context).map((block) => ({ ...block, chain, kind: kindOf(run) })),
    )
    .sort((a, b) => (a.run.firstSequence < b.run.firstSequence ? -1 : 1));
  // Blocks of several kinds overlap: all of the queue is stored up to the first envelope of those that follow.
  return planned.map((block, index) => {
    const next = planned[index + 1];
    return { ...block, cursor: next ? next.run.firstSequence - 1n : frame.lastSequence };
  });
};

const kindOf = ({ kinds }: EnvelopeRun): string => kinds.keys().next().value ?? "";

/** Cuts what is not stored of a run by kind: envelopes of kinds that share a chain stay in their order. */
const runsOf = (
  run: EnvelopeRun,
  { cursor, chainOf, storedThrough }: PlanContext,
): { chain: string; run: EnvelopeRun }[] => {
  if (run.count === 0) return [];
  const chains = new Map([...run.kinds.keys()].map((kind) => [kind, chainOf(kind)]));
  const through = new Map([...chains.values()].map((chain) => [chain, storedThrough(chain)]));
  const isWhole = [...through.values(), cursor].every((sequence) => run.firstSequence > sequence);
  const only = chains.get(kindOf(run));
  if (isWhole && run.kinds.size === 1 && only !== undefined) return [{ chain: only, run }];
  const parts: { chain: string; kind: string }[] = [];
  const open = new Map<string, { kind: string; key: string }>();
  const runs = partitionRun(run, ({ sequence, kind }) => {
    const chain = chains.get(kind) ?? "";
    if (sequence <= cursor || sequence <= (through.get(chain) ?? 0n)) return undefined;
    const last = open.get(chain);
    if (last?.kind === kind) return last.key;
    const key = String(parts.push({ chain, kind }) - 1);
    open.set(chain, { kind, key });
    return key;
  });
  return [...runs].map(([key, part]) => ({ chain: parts[Number(key)]?.chain ?? "", run: part }));
};

const splitToFit = (
  run: EnvelopeRun,
  { bytesMax, codec }: Pick<PlanContext, "bytesMax" | "codec">,
): (ReturnType<typeof encodeRun> & { run: EnvelopeRun })[] => {
  const encoded = encodeRun(run, codec);
  if (encoded.data.length <= bytesMax || run.count === 1) return [{ ...encoded, run }];
  const parts = Math.ceil((encoded.data.length * splitSlack) / bytesMax);
  let index = 0;
  const runs = partitionRun(run, () => String(Math.floor((index++ * parts) / run.count)));
  return [...runs.values()].flatMap((part) => splitToFit(part, { bytesMax, codec }));
};

/** Parts compress less than the whole, and not all alike. */
const splitSlack = 1.2;
