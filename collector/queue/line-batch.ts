import { envelopeMessage } from "#proto/gen/ingest-messages.ts";
import { beginEnvelope, overheadBytes } from "./envelope.ts";
import {
  attributeLength,
  attributeTags,
  type EnvelopeWriter,
  envelopeTags,
  fieldLength,
  writeAttribute,
  writeNumber,
  writeObservedAt,
  writeText,
} from "./envelope-writer.ts";
import type { RecordBatch } from "./record.ts";

/** Lines of one file, as they lie in the buffer that they were read into. */
interface FileLines {
  /** The name of the source. */
  readonly source: string;
  readonly path: string;
  readonly observedAtMs: number;
  readonly buffer: Buffer;
  /** The offset of the buffer's first byte in the file. */
  readonly offset: number;
  /** Where each line starts and ends in the buffer, in turn, without its line end. */
  readonly bounds: readonly number[];
  /** Where each line starts in what was read at `offset`, if `buffer` has decoded copies. */
  readonly starts?: readonly number[];
  /** Whether they are pieces of a longer record, of which more follows. */
  readonly partial: boolean;
  /** The number of the piece of a longer record, from 1 on. */
  readonly part?: number | undefined;
  /** Attributes of all of them. */
  readonly shared?: Readonly<Record<string, string>>;
  /** Attributes of each, as `encodeAttributes` returns them. */
  readonly attributes?: readonly Buffer[] | undefined;
}

const lineKind = "log_line";
const noAttributes = Buffer.alloc(0);
const offsetName = "file.offset";

/**
 * Creates a batch of lines: records of kind `log_line` with the attributes `file.path` and `file.offset`; pieces have `file.part`, and
 * all but the last one `file.partial`.
 * There is no object for a line: what all of them share is encoded once, and copied before each one's offset and text.
 */
export const batchLines = (lines: FileLines): RecordBatch => {
  const { buffer, offset, bounds, starts, attributes } = lines;
  const shared = encodeShared(lines);
  const common = commonAttributes(lines);
  const startOf = (index: number): number => bounds[2 * index] ?? 0;
  const endOf = (index: number): number => bounds[2 * index + 1] ?? 0;
  const offsetOf = (index: number): number => offset + (starts?.[index] ?? startOf(index));
  const sizeOf = (index: number): number =>
    sizeOfLine(
      shared.length + (attributes?.[index]?.length ?? 0),
      offsetOf(index),
      endOf(index) - startOf(index),
    );
  const count = bounds.length / 2;
  let bytes = 0;
  let lineBytes = 0;
  for (let index = 0; index < count; index++) {
    bytes += sizeOf(index);
    lineBytes += endOf(index) - startOf(index);
  }
  return {
    count,
    bytes,
    counts:
      count === 0
        ? []
        : [{ kind: lineKind, source: lines.source, records: count, bytes: lineBytes }],
    sizeOf,
    recordAt: (index) => ({
      kind: lineKind,
      observedAtMs: lines.observedAtMs,
      source: lines.source,
      attributes: {
        ...common,
        ...decodeAttributes(attributes?.[index]),
        [offsetName]: `${offsetOf(index)}`,
      },
      payload: buffer.subarray(startOf(index), endOf(index)),
    }),
    withPayloads: (payloads) => {
      const texts: Uint8Array[] = [];
      const edited = { bounds: [] as number[], starts: [] as number[], attributes: [] as Buffer[] };
      let end = 0;
      for (const [index, payload] of payloads.entries()) {
        if (payload === undefined) continue;
        texts.push(payload);
        edited.bounds.push(end, end + payload.length);
        edited.starts.push(offsetOf(index) - offset);
        edited.attributes.push(attributes?.[index] ?? noAttributes);
        end += payload.length;
      }
      return batchLines({ ...lines, ...edited, buffer: Buffer.concat(texts) });
    },
    write: (writer, index, sequence) => {
      const start = startOf(index);
      const end = endOf(index);
      beginEnvelope(writer, sizeOf(index), sequence);
      shared.copy(writer.buffer, writer.at);
      writer.at += shared.length;
      writer.at += attributes?.[index]?.copy(writer.buffer, writer.at) ?? 0;
      writeOffset(writer, offsetOf(index));
      writeNumber(writer, envelopeTags.payload, end - start);
      buffer.copy(writer.buffer, writer.at, start, end);
      writer.at += end - start;
    },
  };
};

/** Returns the most that a line of this file adds to its own length in the queue. */
export const measureLineOverhead = (
  file: Pick<FileLines, "source" | "path" | "observedAtMs" | "shared">,
): number =>
  sizeOfLine(
    encodeShared({ ...file, partial: true, part: Number.MAX_SAFE_INTEGER }).length,
    Number.MAX_SAFE_INTEGER,
    0,
  ) + 4;

const sizeOfLine = (sharedBytes: number, offset: number, length: number): number =>
  overheadBytes +
  sharedBytes +
  fieldLength(attributeLength(offsetName.length, digitsOf(offset))) +
  fieldLength(length);

/** Encodes the fields that the lines of a batch have in common, except the last one of `file.offset`. */
const encodeShared = ({
  source,
  observedAtMs,
  ...file
}: Omit<FileLines, "buffer" | "offset" | "bounds">): Buffer => {
  const attributes = encodeAttributes(commonAttributes(file));
  const bytes = 256 + 3 * source.length + attributes.length;
  const writer = { buffer: Buffer.allocUnsafe(bytes), at: 0 };
  writeText(writer, envelopeTags.kind, lineKind);
  writeObservedAt(writer, observedAtMs);
  writeText(writer, envelopeTags.source, source);
  writer.at += attributes.copy(writer.buffer, writer.at);
  return writer.buffer.subarray(0, writer.at);
};

/** Returns the attributes that the lines of a batch have in common. */
const commonAttributes = ({
  path,
  partial,
  part,
  shared,
}: Pick<FileLines, "path" | "partial" | "part" | "shared">) => ({
  "file.path": path,
  ...(partial && { "file.partial": "true" }),
  ...(part !== undefined && { "file.part": `${part}` }),
  ...shared,
});

/** Encodes attributes as fields of an envelope. */
export const encodeAttributes = (attributes: Readonly<Record<string, string>>): Buffer => {
  const entries = Object.entries(attributes);
  const characters = entries.reduce((sum, [name, value]) => sum + name.length + value.length, 0);
  const writer = { buffer: Buffer.allocUnsafe(3 * characters + 16 * entries.length), at: 0 };
  for (const [name, value] of entries) writeAttribute(writer, name, value);
  return writer.buffer.subarray(0, writer.at);
};

const decodeAttributes = (encoded: Buffer | undefined): Record<string, string> =>
  encoded === undefined
    ? {}
    : Object.fromEntries(
        envelopeMessage.decode(encoded).attributes.map(({ key, value }) => [key, value]),
      );

const offsetNameBytes = Buffer.from(offsetName);

const writeOffset = (writer: EnvelopeWriter, offset: number): void => {
  const digits = digitsOf(offset);
  writeNumber(writer, envelopeTags.attributes, attributeLength(offsetName.length, digits));
  writeNumber(writer, attributeTags.key, offsetName.length);
  offsetNameBytes.copy(writer.buffer, writer.at);
  writer.at += offsetName.length;
  writeNumber(writer, attributeTags.value, digits);
  writer.at += digits;
  let rest = offset;
  for (let at = writer.at - 1; at >= writer.at - digits; at--) {
    writer.buffer[at] = digitZero + (rest % 10);
    rest = Math.floor(rest / 10);
  }
};

const digitZero = 0x30;

const digitsOf = (value: number): number => {
  let digits = 1;
  for (let limit = 10; value >= limit; limit *= 10) digits += 1;
  return digits;
};
