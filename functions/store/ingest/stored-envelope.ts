import {
  decodeEnvelopes,
  type EnvelopeRun,
  emptyRun,
  rawBytesOf,
  runAbove,
} from "./envelope-run.ts";

/** A stored envelope. */
export interface StoredEnvelope {
  hostId: string;
  queueId: Uint8Array;
  sequence: bigint;
  kind: string;
  /** Microseconds since the Unix epoch; null when the sender gave no time. */
  observedAt: bigint | null;
  /** Microseconds since the Unix epoch. */
  receivedAt: bigint;
  source: string;
  attributes: Readonly<Record<string, string>>;
  payload: Uint8Array;
}

/** The memory that an envelope takes besides its payload: for a line three times the line. */
export const objectBytes = 600;

/** A block whose data cannot be read: the disk of the database returned other bytes than were stored. */
export class BlockCorrupt extends Error {
  override readonly name = "BlockCorrupt";
}

/** Names a damaged block. */
export interface DamagedBlock {
  hostId: string;
  queueId: Uint8Array;
  firstSequence: bigint;
  lastSequence: bigint;
  envelopes: number;
  /** Microseconds since the Unix epoch. */
  receivedAt: bigint;
}

/** Describes a damaged block in a log. */
export const describeDamage = (block: DamagedBlock): string => {
  const { hostId, queueId, firstSequence, lastSequence, envelopes, receivedAt } = block;
  const received = new Date(Number(receivedAt / 1000n)).toISOString();
  return `${envelopes} envelopes, ${firstSequence} to ${lastSequence} of queue ${queueId.toHex()}, host ${hostId}, received at ${received}`;
};

/** A row of `ingest_block`. */
export interface StoredBlock {
  hostId: string;
  queueId: Uint8Array;
  /** Microseconds since the Unix epoch. */
  receivedAt: bigint;
  rawBytes: number;
  encoding: number;
  data: Uint8Array;
}

/** Compresses the data of blocks; the runtime provides it. */
export interface BlockCodec {
  /** Compresses with zstd at its first level (RFC 8878). */
  compress(raw: Uint8Array): Uint8Array;
  /**
   * Decompresses data; null unless the result has `rawBytes`. Never produces more, whatever the data claim. `isJoined`: several frames, which
   * the caller keeps.
   */
  decompress(
    data: Uint8Array,
    rawBytes: number,
    isJoined?: boolean,
  ): Uint8Array<ArrayBuffer> | null;
  /** Frees what `decompress` returned, once it is no longer used. */
  free(decompressed: Uint8Array): void;
  /** Returns the SHA-256 of parts that follow each other. */
  digest(...parts: readonly Uint8Array[]): Uint8Array;
}

/** Reads the envelopes of a block. Throws `BlockCorrupt`. */
export const readStoredBlock = (
  block: StoredBlock,
  codec: Pick<BlockCodec, "decompress">,
): StoredEnvelope[] => {
  const bytes = decodeData(block, codec);
  try {
    return decodeEnvelopes(bytes, block);
  } catch (cause) {
    throw new BlockCorrupt("a stored block cannot be decoded", { cause });
  }
};

/** Reports whether data are those of a digest of stored data. */
export const isOfDigest = (
  data: Uint8Array,
  digest: Uint8Array,
  codec: Pick<BlockCodec, "digest">,
): boolean => {
  const { sha256, isStored } = splitDigest(digest);
  return isStored && codec.digest(data).toHex() === sha256.toHex();
};

/** Reads a block as `readStoredBlock` does, and checks its digest: zstd alone does not detect every damage. Throws `BlockCorrupt`. */
export const readCheckedBlock = (
  block: StoredBlock & { digest: Uint8Array },
  codec: Pick<BlockCodec, "decompress" | "digest">,
): StoredEnvelope[] => {
  const { sha256, isStored } = splitDigest(block.digest);
  const raw = decodeData(block, codec);
  if (codec.digest(isStored ? block.data : raw).toHex() !== sha256.toHex())
    throw new BlockCorrupt("a stored block has another digest");
  return readStoredBlock({ ...block, encoding: blockEncodings.none, data: raw }, codec);
};

const decodeData = (
  { rawBytes, encoding, data }: StoredBlock,
  codec: Pick<BlockCodec, "decompress">,
) => {
  const bytes = encoding === blockEncodings.zstd ? codec.decompress(data, rawBytes, true) : data;
  if (bytes?.length !== rawBytes) throw new BlockCorrupt("a stored block cannot be decompressed");
  return bytes;
};

/** The encodings of a block's data, as `svc.ingest.v1.BlockEncoding` numbers them. */
export const blockEncodings = { none: 1, zstd: 2 } as const;

/** Those of the rows of `ingest_block`: of `object`, the data name a part of an object (object-reference.ts). */
export const storedEncodings = { ...blockEncodings, object: 3 } as const;

/** Prefix of the SHA-256 of a block's data as stored. A digest of the encoded envelopes, as cores before this version store, has none. */
const storedMark = 1;

/** The digest of a block: its SHA-256, and of which data. */
interface BlockDigest {
  sha256: Uint8Array;
  /** True for the SHA-256 of the stored data, false for that of the encoded envelopes. */
  isStored: boolean;
}

/** Returns a digest as `ingest_block` stores it, and as the digest of a range includes it. */
export const joinDigest = ({ sha256, isStored }: BlockDigest): Uint8Array =>
  isStored ? Uint8Array.of(storedMark, ...sha256) : sha256;

/** Parses what `joinDigest` returns. */
const splitDigest = (digest: Uint8Array): BlockDigest => {
  const isStored = digest.length === 33 && digest[0] === storedMark;
  return { sha256: isStored ? digest.subarray(1) : digest, isStored };
};

/** Compressing less costs more than it saves. */
const compressedBytesMin = 2048;

/** A run as it is stored. */
export interface EncodedRun {
  encoding: keyof typeof storedEncodings;
  /** Parts that follow each other. */
  data: readonly Uint8Array[];
}

/** Returns a run as it is stored: as its sender compressed it, or else compressed here, as after core has cut it. */
export const encodeRun = (
  { bytes, compressed }: Pick<EnvelopeRun, "bytes" | "compressed">,
  codec: Pick<BlockCodec, "compress">,
): EncodedRun => {
  if (compressed) return { encoding: "zstd", data: compressed };
  if (bytes.length < compressedBytesMin) return { encoding: "none", data: [bytes] };
  return { encoding: "zstd", data: [codec.compress(bytes)] };
};

/** Calls `read` with the encoded envelopes of a run, which are freed afterwards if they had to be decompressed. */
export const readRun = <Result>(
  run: Pick<EnvelopeRun, "bytes" | "compressed" | "rawBytes">,
  codec: Pick<BlockCodec, "decompress" | "free">,
  read: (bytes: Uint8Array) => Result,
): Result => {
  const [data] = run.compressed ?? [];
  if (data === undefined) return read(run.bytes);
  const bytes = codec.decompress(data, rawBytesOf(run));
  if (bytes === null) throw new Error("a block that was read before cannot be decompressed");
  try {
    return read(bytes);
  } finally {
    codec.free(bytes);
  }
};

/**
 * Returns the part of a run above `cursor`; the run itself if that is all of it. The part of a compressed run is compressed too, since few
 * bytes of a sender may be many.
 */
export const cutRun = (
  run: EnvelopeRun,
  cursor: bigint,
  codec: Pick<BlockCodec, "compress" | "decompress" | "free">,
): EnvelopeRun => {
  if (run.count === 0 || run.firstSequence > cursor) return run;
  const above = readRun(run, codec, (bytes) => runAbove({ bytes }, cursor));
  if (run.compressed === undefined || above.count === 0) return above;
  const { bytes } = emptyRun();
  const compressed = [codec.compress(above.bytes)];
  return { ...above, bytes, rawBytes: above.bytes.length, compressed };
};
