import { BinaryReader } from "@bufbuild/protobuf/wire";
import { tooLarge } from "./refusals.ts";

/**
 * Decodes Snappy (google/snappy, format_description.txt and framing_format.txt), block or framed: senders announce both as `snappy`. Computes the
 * length of the output before it allocates it. Throws for malformed bytes.
 */
export const decodeSnappy = (received: Uint8Array, bytesMax: number): Buffer => {
  const bytes = Buffer.from(received.buffer, received.byteOffset, received.byteLength);
  const isFramed = bytes.subarray(0, streamHead.length).equals(streamHead);
  let length = isFramed ? 0 : blockLength(bytes);
  if (isFramed)
    eachChunk(bytes, (type, data) => {
      length += type === compressedChunk ? blockLength(data) : data.length;
    });
  if (length > bytesMax) throw tooLarge();
  const output = Buffer.alloc(length);
  if (isFramed) decodeChunks(bytes, output);
  else decodeBlock(bytes, output);
  return output;
};

const streamHead = Buffer.from("\xff\x06\x00\x00sNaPpY", "latin1");
const compressedChunk = 0;
const plainChunk = 1;
/** Chunks up to this type must be understood; the others, as padding, are skipped. */
const reservedChunkMax = 0x7f;
const chunkHeadBytes = 4;
const checksumBytes = 4;

/** Calls `visit` with each chunk of data. */
const eachChunk = (
  bytes: Buffer,
  visit: (type: number, data: Buffer, checksum: number) => void,
): void => {
  for (let at = 0; at < bytes.length; ) {
    const type = bytes.readUInt8(at);
    const start = at + chunkHeadBytes;
    at = start + bytes.readUIntLE(at + 1, 3);
    if (at > bytes.length) throw new RangeError("a chunk is cut off");
    if (type === compressedChunk || type === plainChunk)
      visit(type, bytes.subarray(start + checksumBytes, at), bytes.readUInt32LE(start));
    else if (type <= reservedChunkMax) throw new RangeError("a chunk has an unknown type");
  }
};

const decodeChunks = (bytes: Buffer, output: Buffer): void => {
  let written = 0;
  eachChunk(bytes, (type, data, checksum) => {
    const isCompressed = type === compressedChunk;
    const end = written + (isCompressed ? blockLength(data) : data.length);
    const own = output.subarray(written, end);
    if (isCompressed) decodeBlock(data, own);
    else data.copy(own);
    if (checksumOf(own) !== checksum) throw new RangeError("a chunk is damaged");
    written = end;
  });
};

const blockLength = (block: Buffer): number => new BinaryReader(block).uint32();

/** Decodes a block into `output`, which has its length. */
const decodeBlock = (block: Buffer, output: Buffer): void => {
  const reader = new BinaryReader(block);
  reader.uint32();
  let at = reader.pos;
  let written = 0;
  const read = (bytes: number) => {
    at += bytes;
    return bytes === 0 ? 0 : block.readUIntLE(at - bytes, bytes);
  };
  while (at < block.length) {
    const tag = read(1);
    const kind = tag & 3;
    const high = tag >>> 2;
    if (kind === 0) {
      const length = (high < 60 ? high : read(high - 59)) + 1;
      if (block.copy(output, written, at, at + length) !== length)
        throw new RangeError("a literal is too long");
      at += length;
      written += length;
      continue;
    }
    const offset = kind === 1 ? ((high >>> 3) << 8) | read(1) : read(kind === 2 ? 2 : 4);
    const end = written + (kind === 1 ? (high & 7) + 4 : high + 1);
    repeat(output, written, end, offset);
    written = end;
  }
  if (written !== output.length) throw new RangeError("the block is too short");
};

/** Fills `output` up to `end` with the bytes `offset` before. Byte by byte: they may be what it has just written. */
const repeat = (output: Buffer, start: number, end: number, offset: number): void => {
  if (offset === 0 || offset > start || end > output.length)
    throw new RangeError("a copy is out of range");
  for (let at = start; at < end; at++) output[at] = output[at - offset] as number;
};

const crcTable = Uint32Array.from({ length: 256 }, (_, byte) => {
  let crc = byte;
  for (let bit = 0; bit < 8; bit++) crc = (crc >>> 1) ^ (crc & 1 ? 0x82f63b78 : 0);
  return crc;
});

/** Returns the masked CRC-32C of a chunk (framing_format.txt, section 3). */
const checksumOf = (data: Buffer): number => {
  let crc = -1;
  for (const byte of data) crc = (crcTable[(crc ^ byte) & 0xff] as number) ^ (crc >>> 8);
  crc = ~crc;
  return (((crc >>> 15) | (crc << 17)) + 0xa282ead8) >>> 0;
};
