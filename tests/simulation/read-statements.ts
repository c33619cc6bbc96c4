/** Reads what the committer sends: its statements (functions/store/database/sql-literals.ts) and rows in PostgreSQL's binary COPY format. */

import { zstdCodec } from "#functions/node/ingest/zstd-codec.ts";
import { blockColumns } from "#functions/store/ingest/block-rows.ts";
import {
  decodeReference,
  isInObject,
  referencedName,
} from "#functions/store/ingest/object-reference.ts";
import { readStoredBlock, type StoredBlock } from "#functions/store/ingest/stored-envelope.ts";

/** Splits statements at the semicolons that stand in no literal. */
export const splitStatements = (text: string) => partsOf(text, /(?:[^';]|'[^']*')+/g);

/** Returns the arguments of EXECUTE, literals without their quotes. */
export const argumentsOf = (text: string) =>
  partsOf(text, /(?:[^',]|'[^']*')+/g).map((part) =>
    part.startsWith("'") ? part.slice(1, -1).replaceAll("''", "'") : part,
  );

/** Returns the elements of an array's literal. Numbers stand bare, texts in double quotes. */
export const textsOf = (literal: string) => {
  if (!/^\{.*\}$/s.test(literal)) return [];
  return [...literal.slice(1, -1).matchAll(/"((?:[^"\\]|\\.)*)"|([^,]+)/gs)].map(
    ([, quoted, bare]) => quoted?.replace(/\\(.)/gs, "$1") ?? bare ?? "",
  );
};

/** Returns the elements of an array of numbers. */
export const numbersOf = (literal: string) => textsOf(literal).map(Number);

const partsOf = (text: string, pattern: RegExp) =>
  (text.match(pattern) ?? []).map((part) => part.trim()).filter((part) => part !== "");

/** Bytes before the first row: a signature, flags and the length of an extension. */
const headerBytes = 19;

/** A copied block, and its envelopes. */
export interface CopiedBlock {
  columns: ReadonlyMap<string, Buffer>;
  rows: { hostId: string; queueHex: string; sequence: number; text: string }[];
}

/** Returns the blocks of a COPY, of which the parts are the data of its messages; of an object that does not have its block, no envelope. */
export const readCopiedBlocks = (
  parts: readonly Uint8Array[],
  bucket: Pick<ReadonlyMap<string, Uint8Array>, "get">,
) => {
  const bytes = Buffer.concat(parts);
  const blocks: CopiedBlock[] = [];
  for (let at = headerBytes; at < bytes.length; ) {
    const columns = bytes.readInt16BE(at);
    at += 2;
    if (columns === -1) break;
    const values = new Map<string, Buffer>();
    for (const name of blockColumns) {
      const length = bytes.readInt32BE(at);
      at += 4;
      if (length < 0) continue;
      values.set(name, bytes.subarray(at, at + length));
      at += length;
    }
    const block = {
      hostId: values.get("host_id")?.toString() ?? "",
      queueId: values.get("queue_id") ?? Buffer.alloc(0),
      receivedAt: 0n,
      rawBytes: values.get("raw_bytes")?.readInt32BE() ?? 0,
      encoding: values.get("encoding")?.readInt16BE() ?? 0,
      data: values.get("data") ?? Buffer.alloc(0),
    };
    const rows = envelopesIn(block, bucket).map(({ hostId, sequence, payload }) => ({
      hostId,
      queueHex: block.queueId.toString("hex"),
      sequence: Number(sequence),
      text: Buffer.from(payload).toString(),
    }));
    blocks.push({ columns: values, rows });
  }
  return blocks;
};

const envelopesIn = (block: StoredBlock, bucket: Pick<ReadonlyMap<string, Uint8Array>, "get">) => {
  if (!isInObject(block)) return readStoredBlock(block, zstdCodec);
  const { encoding, offset, length, ...named } = decodeReference(block.data);
  const data = bucket.get(referencedName(named))?.subarray(offset, offset + length);
  try {
    return readStoredBlock({ ...block, encoding, data: data ?? new Uint8Array() }, zstdCodec);
  } catch {
    return [];
  }
};

/** Returns the messages of a client: CopyData (`d`) and CopyDone (`c`). */
export const messagesOf = (bytes: Uint8Array) => {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const parts: { type: string; body: Uint8Array }[] = [];
  for (let at = 0; at < bytes.length; ) {
    const length = view.getUint32(at + 1);
    parts.push({
      type: String.fromCharCode(view.getUint8(at)),
      body: bytes.slice(at + 5, at + 1 + length),
    });
    at += 1 + length;
  }
  return parts;
};
