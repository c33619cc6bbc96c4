import type { SettlingAccount } from "#functions/store/completeness/settled-hours.ts";
import type { ExportPlace } from "#proto/completeness/hour-state.ts";

/** Returns the position of the slowest export from PostgreSQL; null without one. */
export const slowestExport = (exports: readonly ExportPlace[]): bigint | null =>
  lowestOf(exports, null);

const lowestOf = (exports: readonly ExportPlace[], of: string | null) =>
  exports.reduce<bigint | null>(
    (least, { stream, position }) =>
      stream === of && (least === null || position < least) ? position : least,
    null,
  );

/** Up to where deliveries from a stream have settled hours; nulls for nowhere. */
interface DeliveryColumns {
  deliveredStream: string | null;
  deliveredThrough: bigint | null;
}

/** The part of a stream that every export of it has delivered since. */
interface StreamDelivery {
  stream: string;
  from: bigint;
  through: bigint;
}

/** Returns what has been delivered of a stream since `last`, at first nothing; null without an export of one. */
export const streamDelivery = (
  exports: readonly ExportPlace[],
  last: DeliveryColumns | undefined,
): StreamDelivery | null => {
  const streams = exports.flatMap(({ stream }) => (stream === null ? [] : [stream]));
  const same = streams.find((one) => one === last?.deliveredStream);
  const stream = same ?? streams[0];
  const slowest = stream === undefined ? null : lowestOf(exports, stream);
  if (stream === undefined || slowest === null) return null;
  // One that was created again begins anew.
  const from =
    same === undefined
      ? last?.deliveredStream
        ? 0n
        : slowest
      : (last?.deliveredThrough ?? slowest);
  return { stream, from, through: slowest < from ? from : slowest };
};

/** Returns up to where it has settled hours, before `left` if something is left. */
export const deliveryColumns = (
  delivery: StreamDelivery | null,
  left?: SettlingAccount,
): DeliveryColumns => ({
  deliveredStream: delivery?.stream ?? null,
  deliveredThrough: left ? left.streamEnd - 1n : (delivery?.through ?? null),
});
