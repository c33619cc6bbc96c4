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
