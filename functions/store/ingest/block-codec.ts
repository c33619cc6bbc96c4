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

/** Compressing less costs more than it saves. */
const compressedBytesMin = 2048;

/** Returns a run as it is stored: as its sender compressed it, or else compressed here. */
export const encodeRun = (
  { bytes, compressed }: Pick<EnvelopeRun, "bytes" | "compressed">,
  codec: Pick<BlockCodec, "compress">,
): { encoding: keyof typeof blockEncodings; data: Uint8Array } => {
  if (compressed === undefined && bytes.length < compressedBytesMin) return { encoding: "none", data: bytes };
  return { encoding: "zstd", data: compressed ?? codec.compress(bytes) };
};
