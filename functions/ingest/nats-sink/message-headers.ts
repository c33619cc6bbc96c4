import { type CountStart, formatTotals, parseTotals } from "../../domain/telemetry/stream-range.ts";
import type { BlockCodec } from "../../store/ingest/block-codec.ts";
import type { PlannedBlock } from "./plan-blocks.ts";
import type { QueueView } from "./queue-view.ts";

/** The headers of a block (docs/nats.md). Text of the sender is percent-encoded: a header ends at the end of its line. */
export const blockHeaders = (
  view: QueueView,
  { kind, run, encoding }: PlannedBlock,
  receivedAt: number,
  codec: Pick<BlockCodec, "digest">,
): Record<string, string> => ({
  "Svc-First-Sequence": String(run.firstSequence),
  "Svc-Envelopes": String(run.count),
  "Svc-Kind": kind,
  ...view.nameHeaders,
  ...(view.session && { "Svc-Session": view.session }),
  "Svc-Received-At": timeOf(receivedAt),
  "Svc-Encoding": encoding,
  "Svc-Raw-Bytes": String(run.bytes.length),
  "Svc-Sha256": codec.digest(run.bytes).toHex(),
});

/** Formats a time, in milliseconds, in UTC with microseconds. */
const timeOf = (ms: number): string => new Date(ms).toISOString().replace("Z", "000Z");

/** Writes from where the totals of a queue go on, for the header `Svc-Counted-From`. */
export const formatCountStarts = (starts: readonly CountStart[]): string =>
  starts
    .map(
      ({ from, through, isLost, totals }) =>
        `${from},${through},${isLost ? "lost" : "unknown"},${formatTotals(totals)}`,
    )
    .join(";");

/** Reads `Svc-Counted-From`, as far as it is as `formatCountStarts` writes it. */
export const parseCountStarts = (text: string): CountStart[] =>
  text.split(";").flatMap((start) => {
    const [, from = "", through = "", kind, rest = ""] =
      /^(\d{1,19}),(\d{1,19}),(lost|unknown),(.*)$/.exec(start) ?? [];
    const totals = parseTotals(rest);
    return totals
      ? [{ from: BigInt(from), through: BigInt(through), isLost: kind === "lost", totals }]
      : [];
  });
