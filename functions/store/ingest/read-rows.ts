import { type EncodedRows, headerBytes } from "./envelope-rows.ts";

/** One row, read back from its encoding. Its bytes are views of it. */
export interface ReadRow {
  sequence: bigint;
  kind: string;
  /** RFC 3339 in UTC with microseconds; absent when the sender gave none. */
  observedAt: string | undefined;
  receivedAt: string;
  source: string;
  /** The text of a JSON object. */
  attributes: string;
  payload: Uint8Array;
}

const postgresEpochMs = 946_684_800_000;
const decoder = new TextDecoder("utf-8", { ignoreBOM: true });

/** Reads the rows above `cursor`, in their order: for a sink that does not copy them as they are. */
export function* readRows(rows: EncodedRows, cursor: bigint): Generator<ReadRow> {
  const view = new DataView(rows.bytes.buffer, rows.bytes.byteOffset, rows.bytes.length);
  for (let row = 0; row < rows.count; row++) {
    if ((rows.sequences[row] as bigint) > cursor) yield readRow(rows.bytes, view, rows.extents[row * 2] ?? headerBytes);
  }
}

const readRow = (bytes: Uint8Array, view: DataView, start: number): ReadRow => {
  // After the number of columns.
  let at = start + 2;
  const next = (): Uint8Array | undefined => {
    const length = view.getInt32(at);
    at += 4;
    if (length < 0) return undefined;
    at += length;
    return bytes.subarray(at - length, at);
  };
  const text = (): string => decoder.decode(next());
  const time = (): string | undefined => (next() ? rfc3339Micro(view.getBigInt64(at - 8)) : undefined);
  // The host and the queue are those of the frame.
  next();
  next();
  next();
  const sequence = view.getBigInt64(at - 8);
  const kind = text();
  const observedAt = time();
  const receivedAt = time() ?? "";
  const source = text();
  // jsonb begins with its version.
  const attributes = decoder.decode(next()?.subarray(1));
  return { sequence, kind, observedAt, receivedAt, source, attributes, payload: next() ?? new Uint8Array() };
};

/** Formats microseconds since 2000. */
const rfc3339Micro = (microseconds: bigint): string => {
  const ms = Number(microseconds / 1000n);
  const rest = Number(microseconds % 1000n);
  // Division of negative numbers rounds towards 2000.
  const [floorMs, micro] = rest < 0 ? [ms - 1, rest + 1000] : [ms, rest];
  return `${new Date(postgresEpochMs + floorMs).toISOString().slice(0, -1)}${String(micro).padStart(3, "0")}Z`;
};
