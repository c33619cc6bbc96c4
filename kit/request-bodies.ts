/**
 * Limits request bodies while they arrive: the bytes of one remote address (IPv6: of its /64) and of all, and the time of each.
 *
 * A byte over a limit ends the oldest incomplete body, of that address or of all, not the newest: a client that sends its body at once is
 * served although any number of other bodies stall.
 */
import { addressKey } from "./address.ts";
import { readBytes } from "./bytes.ts";
import type { Clock } from "./clock.ts";
import { jsonLimits, parseForeignJson } from "./foreign-json.ts";
import { strictUtf8 } from "./utf8.ts";

/** The limits of incomplete bodies. */
interface BodyLimits {
  bytesMax: number;
  addressBytesMax: number;
  /** From the first read to the last byte. */
  timeoutMs: number;
}

/** An edge or web is one address to core, so its limit is enough for hundreds of concurrent requests. */
const bodyLimits: BodyLimits = {
  bytesMax: 64 * 1024 * 1024,
  addressBytesMax: 16 * 1024 * 1024,
  timeoutMs: 30_000,
};

/** Why a body was not read, as the code of a problem. */
type BodyRefusal = "payload_too_large" | "body_timeout" | "overloaded";

/** Reads the bodies of the requests to one program. */
export interface RequestBodies {
  /** Returns the body, or why it was not read. Rejects when the client disconnects. */
  read(
    request: Pick<Request, "body" | "headers">,
    limits: { remoteAddress: string; bytesMax: number },
  ): Promise<Uint8Array<ArrayBuffer> | BodyRefusal>;
  /** Returns a body that gzip has compressed; null as soon as it has more than `bytesMax`. Rejects for other bytes. */
  gunzip(bytes: Uint8Array<ArrayBuffer>, bytesMax: number): Promise<Uint8Array<ArrayBuffer> | null>;
  parse: ParseBody;
  /** Returns a body as UTF-8 text. Throws a `TypeError` for other bytes. */
  decode(bytes: Uint8Array): string;
}

/** Parses the JSON of a body that may have `bytesMax` bytes, within the limits of its values. Throws as `parseForeignJson` does. */
export type ParseBody = (bytes: Uint8Array, bytesMax: number) => unknown;

/** The `ParseBody` for bytes that do not arrive as a request. */
export const parseBody: ParseBody = (bytes, bytesMax) =>
  parseForeignJson(bytes, jsonLimits.request(bytesMax), strictUtf8);

interface Incomplete {
  address: string;
  bytes: number;
  end(refusal: BodyRefusal): void;
}

/** Creates the reader of a program's bodies. */
export const createRequestBodies = (
  clock: Pick<Clock, "sleep">,
  { bytesMax: allBytesMax, addressBytesMax, timeoutMs }: BodyLimits = bodyLimits,
): RequestBodies => {
  /** In the order of their first reads. */
  const incomplete = new Set<Incomplete>();
  const bytesByAddress = new Map<string, number>();
  let totalBytes = 0;

  const add = (body: Incomplete, bytes: number) => {
    body.bytes += bytes;
    totalBytes += bytes;
    const addressBytes = (bytesByAddress.get(body.address) ?? 0) + bytes;
    if (addressBytes === 0) bytesByAddress.delete(body.address);
    else bytesByAddress.set(body.address, addressBytes);
  };
  const remove = (body: Incomplete) => {
    if (incomplete.delete(body)) add(body, -body.bytes);
  };
  const endOldest = (address?: string) => {
    for (const body of incomplete) {
      if (body.bytes === 0 || (address !== undefined && body.address !== address)) continue;
      body.end("overloaded");
      return;
    }
  };
  const reserve = (body: Incomplete, bytes: number) => {
    add(body, bytes);
    while ((bytesByAddress.get(body.address) ?? 0) > addressBytesMax) endOldest(body.address);
    while (totalBytes > allBytesMax) endOldest();
  };

  return {
    gunzip: (bytes, bytesMax) =>
      readBytes(streamOf(bytes).pipeThrough(new DecompressionStream("gzip")), bytesMax),
    parse: parseBody,
    decode: (bytes) => strictUtf8.decode(bytes),
    async read(request, { remoteAddress, bytesMax }) {
      if (Number(request.headers.get("content-length") ?? 0) > bytesMax) return "payload_too_large";
      if (request.body === null) return new Uint8Array();
      const reader = request.body.getReader();
      const settled = new AbortController();
      let refusal: BodyRefusal | undefined;
      const body: Incomplete = {
        address: addressKey(remoteAddress),
        bytes: 0,
        end(reason) {
          refusal ??= reason;
          remove(body);
          // Ends a pending read.
          reader.cancel().catch(() => undefined);
        },
      };
      const chunks = async function* () {
        for (;;) {
          const { done, value } = await reader.read();
          if (done || refusal !== undefined) return;
          reserve(body, value.length);
          if (refusal !== undefined) return;
          yield value;
        }
      };
      incomplete.add(body);
      clock.sleep(timeoutMs, settled.signal).then(
        () => body.end("body_timeout"),
        () => undefined,
      );
      try {
        const bytes = await readBytes(chunks(), bytesMax);
        if (bytes === null) body.end("payload_too_large");
        return refusal ?? bytes ?? "payload_too_large";
      } finally {
        settled.abort();
        remove(body);
      }
    },
  };
};

/** Streams bytes. A Blob would copy them to memory that the garbage collector does not count. */
const streamOf = (bytes: Uint8Array<ArrayBuffer>) =>
  new ReadableStream<Uint8Array<ArrayBuffer>>({
    start(controller) {
      controller.enqueue(bytes);
      controller.close();
    },
  });
