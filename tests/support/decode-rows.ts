import { type CopyRows, headerBytes } from "../../functions/store/ingest/envelope-rows.ts";

/** A row as COPY receives it: text decoded, timestamps in microseconds since 2000, attributes parsed as jsonb parses them. */
export interface DecodedRow {
  hostId: string;
  queue: string;
  sequence: bigint;
  kind: string;
  observedAt: bigint | null;
  receivedAt: bigint | null;
  source: string;
  attributes: unknown;
  payload: Uint8Array;
}

/** Decodes rows, or throws: every length must fit, and all text must be UTF-8 without NUL. */
export const decodeRows = ({ bytes, count }: CopyRows): DecodedRow[] => {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const rows: DecodedRow[] = [];
  let at = headerBytes;
  const field = (): Uint8Array | null => {
    const length = view.getInt32(at);
    at += 4;
    if (length < 0) return null;
    if (at + length > bytes.length) throw new Error("a field ends beyond the rows");
    at += length;
    return Uint8Array.from(bytes.subarray(at - length, at));
  };
  const required = (): Uint8Array => {
    const value = field();
    if (value === null) throw new Error("a column is NULL");
    return value;
  };
  const text = (value: Uint8Array): string => {
    const decoded = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(value);
    if (decoded.includes("\0")) throw new Error("text contains NUL");
    return decoded;
  };
  const number = (value: Uint8Array): bigint => new DataView(value.buffer).getBigInt64(0);
  const timestamp = (value: Uint8Array | null): bigint | null => value && number(value);
  while (at < bytes.length) {
    if (view.getInt16(at) !== 9) throw new Error("a row has nine columns");
    at += 2;
    rows.push({
      hostId: text(required()),
      queue: required().toHex(),
      sequence: number(required()),
      kind: text(required()),
      observedAt: timestamp(field()),
      receivedAt: timestamp(field()),
      source: text(required()),
      attributes: JSON.parse(text(required().subarray(1))),
      payload: required(),
    });
  }
  if (rows.length !== count) throw new Error("the number of rows differs from their count");
  return rows;
};
