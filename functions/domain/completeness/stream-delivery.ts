/* How far exports have delivered what core stores. */
import type { SettlingAccount } from "#functions/store/completeness/settled-hours.ts";
import type { ExportPlace } from "#proto/completeness/hour-accounts.ts";

/** Returns the position of the slowest export from PostgreSQL; null without one. */
export const slowestExport = (exports: readonly ExportPlace[]): bigint | null =>
  lowestOf(exports, null);

/** Returns the lowest position of the exports from a stream; from PostgreSQL if `stream` is null. */
const lowestOf = (exports: readonly ExportPlace[], stream: string | null) =>
  exports.reduce<bigint | null>(
    (lowest, each) =>
      each.stream === stream && (lowest === null || each.position < lowest)
        ? each.position
        : lowest,
    null,
  );

/** The position up to which deliveries from a stream have settled hours; nulls for none. */
export interface DeliveryColumns {
  deliveredStream: string | null;
  deliveredThrough: bigint | null;
}

/** A range of a stream that every export from it has delivered. */
interface StreamDelivery {
  stream: string;
  from: bigint;
  through: bigint;
}

/** Returns the range of a stream that has been delivered since `last`, at first an empty one; null if no export reads a stream. */
export const streamDelivery = (
  exports: readonly ExportPlace[],
  last: DeliveryColumns | undefined,
): StreamDelivery | null => {
  const streams = exports.flatMap(({ stream }) => (stream === null ? [] : [stream]));
  const isSame = streams.some((name) => name === last?.deliveredStream);
  const stream = isSame ? last?.deliveredStream : streams[0];
  const slowest = stream ? lowestOf(exports, stream) : null;
  if (!stream || slowest === null) return null;
  const from = deliveredFrom(last, { isSame, slowest });
  return { stream, from, through: slowest < from ? from : slowest };
};

const deliveredFrom = (
  last: DeliveryColumns | undefined,
  { isSame, slowest }: { isSame: boolean; slowest: bigint },
): bigint => {
  if (isSame) return last?.deliveredThrough ?? slowest;
  // A stream that replaces another is settled from its beginning.
  return last?.deliveredStream ? 0n : slowest;
};

/** Returns the position up to which a delivery has settled hours: all of it, or what is before the account `next`. */
export const deliveryColumns = (
  delivery: StreamDelivery | null,
  next?: SettlingAccount,
): DeliveryColumns => ({
  deliveredStream: delivery?.stream ?? null,
  deliveredThrough: next ? next.streamEnd - 1n : (delivery?.through ?? null),
});
