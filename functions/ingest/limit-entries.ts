import type { Compression, UniversalHandler, UniversalServerRequest } from "@connectrpc/connect/protocol";
import { unpooled } from "../../kit/buffer-pool.ts";
import { readBytes } from "../../kit/bytes.ts";
import { Problem } from "../problems.ts";
import { toConnectError } from "./connect-error.ts";
import { checkEntries, checkJsonEntries } from "./count-entries.ts";
import { createGrpcMessageReader, type GrpcMessage, joinGrpcMessages } from "./grpc-messages.ts";

/** What a handler's messages are judged by. */
export interface EntryLimits {
  /** The number of `frame` in a message. */
  field: number;
  readMaxBytes: number;
  /** Bounds its output before it is made. */
  gzip: Compression;
}

/**
 * Refuses a message of too many envelopes and attributes with `frame_too_large` before Connect decodes it: a few kilobytes of gzip can
 * hold two million empty ones, which would keep core busy for a second. What is compressed reaches the handler decompressed, so that it
 * is done once. Other encodings than gzip are Connect's to refuse.
 */
export const limitEntries = (handler: UniversalHandler, limits: EntryLimits): UniversalHandler => {
  const limited = (request: UniversalServerRequest) => {
    const { body, header } = request;
    // Connect reads it in any case.
    const type = (header.get("content-type") ?? "").toLowerCase();
    const [, prefix, codec = "proto"] =
      /^application\/(grpc-web|grpc|connect)?\+?(proto|json)?(?:;.*)?$/.exec(type) ?? [];
    const coding = codingHeaders[prefix ?? "unary"];
    const encoding = (coding && header.get(coding)) ?? "identity";
    if (coding === undefined || !isStream(body) || !["identity", "gzip"].includes(encoding)) return handler(request);
    const check = (message: Uint8Array): void => {
      try {
        if (codec === "json") checkJsonEntries(message);
        else checkEntries(message, limits.field);
      } catch (error) {
        throw toConnectError(error);
      }
    };
    if (prefix !== undefined) return handler({ ...request, body: checkMessages(body, check, limits) });
    const plain = new Headers(header);
    plain.delete(coding);
    plain.delete("content-length");
    return handler({
      ...request,
      header: plain,
      body: checkBody(body, check, { ...limits, compressed: encoding === "gzip" }),
    });
  };
  return Object.assign(limited, handler);
};

/** Where a protocol says how a message is compressed. */
const codingHeaders: Readonly<Record<string, string>> = {
  unary: "content-encoding",
  grpc: "grpc-encoding",
  "grpc-web": "grpc-encoding",
  connect: "connect-content-encoding",
};

type Bytes = Uint8Array<ArrayBuffer>;

const isStream = (body: UniversalServerRequest["body"]): body is AsyncIterable<Bytes> =>
  typeof body === "object" && body !== null && Symbol.asyncIterator in body;

async function* checkMessages(
  body: AsyncIterable<Bytes>,
  check: (message: Uint8Array) => void,
  { readMaxBytes, gzip }: EntryLimits,
): AsyncGenerator<Uint8Array> {
  const reader = createGrpcMessageReader(readMaxBytes, unpooled, tooLarge);
  const open = async ({ compressed, data }: GrpcMessage) => (compressed ? gzip.decompress(data, readMaxBytes) : data);
  for await (const chunk of body)
    for (const message of reader.push(chunk)) {
      const data = await open(message);
      check(data);
      yield joinGrpcMessages([data]);
    }
  if (!reader.isComplete())
    throw toConnectError(new Problem("frame_invalid", { detail: "the body ends inside a message" }));
}

async function* checkBody(
  body: AsyncIterable<Bytes>,
  check: (message: Uint8Array) => void,
  { compressed, readMaxBytes, gzip }: EntryLimits & { compressed: boolean },
): AsyncGenerator<Uint8Array> {
  const sent = await readBytes(body, readMaxBytes);
  if (sent === null) throw tooLarge();
  const message = compressed ? await gzip.decompress(sent, readMaxBytes) : sent;
  check(message);
  yield message;
}

const tooLarge = () => toConnectError(new Problem("frame_too_large"));
