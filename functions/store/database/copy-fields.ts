/** Reads the columns of a row of binary COPY, one after the other (PostgreSQL's manual, "COPY", "Binary Format"). */
interface CopyFields {
  text(): string;
  /** A copy, because pg reuses the memory of a message. */
  bytes(): Uint8Array<ArrayBuffer>;
  integer(): number;
  bigint(): bigint;
  /** Microseconds since the Unix epoch; null for NULL. */
  time(): bigint | null;
}

const signatureBytes = 19;
const postgresEpochMicroseconds = 946_684_800_000_000n;

/** Begins a row, which PostgreSQL sends as one message; returns undefined for the trailer, and for a header without a row. */
export const createCopyFields = (chunk: Buffer): CopyFields | undefined => {
  // The signature before the first row begins with "PGCOPY"; no row has so many columns.
  let at = chunk.readUInt16BE(0) === 0x5047 ? signatureBytes : 0;
  if (at >= chunk.length || chunk.readInt16BE(at) === -1) return undefined;
  at += 2;
  const next = (): Buffer | null => {
    const length = chunk.readInt32BE(at);
    at += 4;
    if (length === -1) return null;
    at += length;
    return chunk.subarray(at - length, at);
  };
  const value = (): Buffer => {
    const bytes = next();
    if (bytes === null) throw new TypeError("a column of telemetry is null");
    return bytes;
  };
  return {
    text: () => value().toString(),
    bytes: () => Uint8Array.from(value()),
    integer: () => {
      const bytes = value();
      return bytes.readIntBE(0, bytes.length);
    },
    bigint: () => value().readBigInt64BE(),
    time: () => {
      const bytes = next();
      return bytes && bytes.readBigInt64BE() + postgresEpochMicroseconds;
    },
  };
};
