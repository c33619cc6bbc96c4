import { Duplex } from "node:stream";
import { constants, createBrotliCompress, createGzip, createZstdCompress } from "node:zlib";
import type { ContentCoding } from "../../../kit/compress-answer.ts";

const through = (body: ReadableStream<Uint8Array>, coder: Duplex) =>
  body.pipeThrough(Duplex.toWeb(coder) as object as ReadableWritablePair<Uint8Array, Uint8Array>);

/**
 * Node's codings, the cheapest first: at levels that make less than 40 KB of 200 hosts with names and hashes of their own, 294 KB, in 0.6,
 * 1.6 and 2.4 ms of CPU.
 */
export const contentCodings: readonly ContentCoding[] = [
  {
    name: "zstd",
    compress: (body) =>
      through(body, createZstdCompress({ params: { [constants.ZSTD_c_compressionLevel]: 1 } })),
  },
  {
    name: "br",
    compress: (body) =>
      through(body, createBrotliCompress({ params: { [constants.BROTLI_PARAM_QUALITY]: 3 } })),
  },
  { name: "gzip", compress: (body) => through(body, createGzip({ level: 5 })) },
];
