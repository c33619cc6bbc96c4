import type { RangeBlock } from "#functions/store/completeness/range-blocks.ts";

/** Names the file of a stored block: as its sender encoded it, with zstd or plain. */
export const blockFileName = (
  queueId: Uint8Array,
  { firstSequence, lastSequence }: Pick<RangeBlock, "firstSequence" | "lastSequence">,
  isCompressed: boolean,
): string => `${queueId.toHex()}-${firstSequence}-${lastSequence}.${isCompressed ? "zst" : "raw"}`;
