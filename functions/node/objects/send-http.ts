import { createHash } from "node:crypto";
import { Readable } from "node:stream";
import { Agent, buildConnector, request } from "undici";
import type { SendHttp } from "#functions/objects/s3-calls.ts";
import { concatBytes, lengthOf } from "#kit/bytes.ts";
import { readCertificates } from "../config-files.ts";

const connectionsMax = 32;
const connectMsMax = 5_000;

/** Creates a client that keeps connections, and verifies servers by `caFile` as each connection finds it; null: by the machine's CAs. */
export const createSendHttp = (caFile: string | null): SendHttp => {
  const dispatcher = new Agent({
    connections: connectionsMax,
    pipelining: 1,
    // The caller has timeouts of its own.
    headersTimeout: 0,
    bodyTimeout: 0,
    connect: (options, callback) => {
      try {
        const ca = caFile === null ? {} : { ca: readCertificates(caFile) };
        buildConnector({ ...ca, timeout: connectMsMax })(options, callback);
      } catch (error) {
        callback(error as Error, null);
      }
    },
  });
  return async ({ url, headers: signed, body: parts, ...options }) => {
    const headers = parts ? { ...signed, "content-length": `${lengthOf(parts)}` } : signed;
    const body = parts ? Readable.from(chunksOf(parts)) : null;
    const response = await request(url, { ...options, headers, body, dispatcher });
    return {
      status: response.statusCode,
      header: (name) => [response.headers[name]].flat()[0],
      body: response.body,
    };
  };
};

/** A connection encrypts a chunk at once. */
const chunkBytes = 64 * 1024;

/** Joins small parts to chunks of `chunkBytes` or more, so that an object is never in memory twice. */
function* chunksOf(parts: readonly Uint8Array[]) {
  let chunk: Uint8Array[] = [];
  let bytes = 0;
  for (const part of parts) {
    chunk.push(part);
    bytes += part.length;
    if (bytes < chunkBytes) continue;
    yield concatBytes(chunk);
    chunk = [];
    bytes = 0;
  }
  yield concatBytes(chunk);
}

/** Returns the SHA-256 of parts that follow each other, in hex. */
export const hashParts = (parts: readonly Uint8Array[]): string => {
  const hash = createHash("sha256");
  for (const part of parts) hash.update(part);
  return hash.digest("hex");
};
