import type { EnvelopeRun } from "./envelope-run.ts";

/** The encodings of a block's data, as `svc.ingest.v1.BlockEncoding` numbers them. */
export const blockEncodings = { none: 1, zstd: 2 } as const;

/** What blocks need of their runtime. */
export interface BlockCodec {
  /** Compresses with zstd at its first level (RFC 8878). */
  compress(raw: Uint8Array): Uint8Array;
  /** Returns what was compressed; null unless that is `rawBytes` long. It makes no more than that, whatever the data claim. */
  decompress(data: Uint8Array, rawBytes: number): Uint8Array<ArrayBuffer> | null;
  /** Frees what `decompress` returned, which nothing uses any more. */
  free(decompressed: Uint8Array): void;
  /** Returns the SHA-256. */
  digest(raw: Uint8Array): Uint8Array;
}

/** Before the SHA-256 of a block's data as they are stored; a digest of the encoded envelopes, as cores before this version store, has none. */
const storedMark = 1;

/** The digest of a block: its SHA-256, and of what. */
export interface BlockDigest {
  sha256: Uint8Array;
  /** True for the SHA-256 of the stored data, false for that of the encoded envelopes. */
  isStored: boolean;
}

/** Returns a digest as `ingest_block` has it, and as the digest of a range continues by it. */
export const joinDigest = ({ sha256, isStored }: BlockDigest): Uint8Array =>
  isStored ? Uint8Array.of(storedMark, ...sha256) : sha256;

/** Reads what `joinDigest` returns. */
export const splitDigest = (digest: Uint8Array): BlockDigest => {
  const isStored = digest.length === 33 && digest[0] === storedMark;
  return { sha256: isStored ? digest.subarray(1) : digest, isStored };
};

/** Compressing less costs more than it saves. */
const compressedBytesMin = 2048;

/** A run as it is stored. */
export interface EncodedRun {
  encoding: keyof typeof blockEncodings;
  data: Uint8Array;
}

/** Returns a run as it is stored: as its sender compressed it, or else compressed here, as what core has cut is. */
export const encodeRun = (
  { bytes, compressed }: Pick<EnvelopeRun, "bytes" | "compressed">,
  codec: Pick<BlockCodec, "compress">,
): EncodedRun => {
  if (compressed === undefined && bytes.length < compressedBytesMin)
    return { encoding: "none", data: bytes };
  return { encoding: "zstd", data: compressed ?? codec.compress(bytes) };
};
