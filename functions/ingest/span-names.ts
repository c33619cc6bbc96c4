/**
 * The span names of an OTLP `ExportTraceServiceRequest`, read off the wire: resource_spans = 1, scope_spans = 2, spans = 2, name = 5
 * (opentelemetry/proto/trace/v1/trace.proto). Decoding the whole message would cost more than the rest of ingest together.
 */

/** Thrown at a message that is not well-formed protobuf. */
export class WireError extends Error {}

/** A part of a message that is read from `at` to `end`. */
export interface Cursor {
  bytes: Uint8Array;
  at: number;
  end: number;
}

const utf8 = new TextDecoder("utf-8", { fatal: true });

/** Whether the payload parses, holds at least one span, and every span's name is in `names`. Never throws. */
export const everySpanNamed = (payload: Uint8Array, names: ReadonlySet<string>): boolean => {
  let spans = 0;
  let matching = true;
  try {
    eachField({ bytes: payload, at: 0, end: payload.length }, 1, (resourceSpans) =>
      eachField(resourceSpans, 2, (scopeSpans) =>
        eachField(scopeSpans, 2, (span) => {
          spans++;
          // A field given twice counts by its last value; an absent name is "".
          let name = "";
          eachField(span, 5, ({ bytes, at, end }) => {
            name = text(bytes.subarray(at, end));
          });
          if (!names.has(name)) matching = false;
        }),
      ),
    );
  } catch (error) {
    if (error instanceof WireError) return false;
    throw error;
  }
  return matching && spans > 0;
};

const text = (bytes: Uint8Array): string => {
  try {
    return utf8.decode(bytes);
  } catch {
    throw new WireError("text is not UTF-8");
  }
};

/** Calls `visit` with each length-delimited field of this number; other fields are skipped, and must be well-formed. */
export const eachField = (cursor: Cursor, number: number, visit: (field: Cursor) => void): void => {
  while (cursor.at < cursor.end) {
    const key = varint(cursor);
    const field = key >>> 3;
    if (field === 0) throw new WireError("field number 0");
    switch (key & 7) {
      case 0:
        varint(cursor);
        if (field === number) throw new WireError("a message was expected");
        break;
      case 1:
        skip(cursor, 8);
        if (field === number) throw new WireError("a message was expected");
        break;
      case 2: {
        const length = varint(cursor);
        const at = cursor.at;
        skip(cursor, length);
        if (field === number) visit({ bytes: cursor.bytes, at, end: cursor.at });
        break;
      }
      case 5:
        skip(cursor, 4);
        if (field === number) throw new WireError("a message was expected");
        break;
      default:
        // Groups are not part of proto3.
        throw new WireError("unknown wire type");
    }
  }
};

const skip = (cursor: Cursor, length: number): void => {
  if (length > cursor.end - cursor.at) throw new WireError("a field ends beyond its message");
  cursor.at += length;
};

/** The low 32 bits of a varint of up to ten bytes: enough for keys and lengths, and larger values are only skipped. */
const varint = (cursor: Cursor): number => {
  let value = 0;
  for (let index = 0; index < 10; index++) {
    const byte = cursor.at < cursor.end ? cursor.bytes[cursor.at] : undefined;
    if (byte === undefined) throw new WireError("a number is cut off");
    cursor.at++;
    if (index < 5) value += (byte & 0x7f) * 2 ** (7 * index);
    if (byte < 0x80) return value >>> 0;
  }
  throw new WireError("a number is too long");
};
