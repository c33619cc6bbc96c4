import type { ContextValues } from "@connectrpc/connect";
import type {
  Compression,
  UniversalHandler,
  UniversalServerRequest,
} from "@connectrpc/connect/protocol";
import { unpooled } from "#kit/buffer-pool.ts";
import { readBytes } from "#kit/bytes.ts";
import { freeBytes } from "#kit/free-bytes.ts";
import { createGrpcMessageReader, frameGrpcMessages } from "#proto/grpc-framing.ts";
import { createJsonCheck } from "#proto/limits/json-check.ts";
import { createWireCheck } from "#proto/limits/wire-check.ts";
import { ProtobufError, WireLimitError } from "#proto/wire.ts";
import { Problem } from "../problems.ts";
import type { Reception } from "./byte-budget.ts";
import { toConnectError } from "./connect-error.ts";

/** Limits of the messages of one method. */
export interface MessageLimits {
  /** The limit of a message, before and after decompression. */
  bytesMax: number;
  /** Bounds its output before it makes it. */
  gzip: Compression;
  /** Starts the body of a call, for its deadline and its bytes in the budget. */
  begin(request: Pick<UniversalServerRequest, "contextValues" | "signal">): Reception;
  /** Whether the body is one message, of which the end of the body is a part. */
  isUnary: boolean;
  /**
   * Decodes a message in place of Connect, which reports bytes that are no message as its own failure; returns what Connect decodes
   * instead. Throws a Problem.
   */
  decode?(message: Bytes, codec: string, values: ContextValues | undefined): Bytes;
}

/**
 * Rejects messages with `frame_too_large` before Connect decodes them: over `bytesMax` as soon as their length is known, and those that hold
 * more than `messageLimits`, as a few kilobytes of gzip can hold two million empty values, which core would decode for a second.
 * Compressed messages reach the handler decompressed. Connect rejects other encodings than gzip, without reading the body.
 */
export const limitMessages = (
  handler: UniversalHandler,
  limits: MessageLimits,
): UniversalHandler => {
  const checks = {
    json: createJsonCheck(handler.method.input),
    proto: createWireCheck(handler.method.input).check,
  };
  const limited = (request: UniversalServerRequest) => {
    const { body, header } = request;
    // Connect ignores the case of media types.
    const type = (header.get("content-type") ?? "").toLowerCase();
    const [, prefix, codec = "proto"] =
      /^application\/(grpc-web|grpc|connect)?\+?(proto|json)?(?:;.*)?$/.exec(type) ?? [];
    const encodingHeader = encodingHeaders[prefix ?? "unary"];
    const encoding = (encodingHeader && header.get(encodingHeader)) ?? "identity";
    if (encodingHeader === undefined || !isStream(body) || !["identity", "gzip"].includes(encoding))
      return handler(request);
    // After the gate, which knows the caller.
    const begin = () => limits.begin(request);
    const check = (message: Bytes): Bytes => {
      try {
        checkLimits(codec === "json" ? checks.json : checks.proto, message);
        return limits.decode?.(message, codec, request.contextValues) ?? message;
      } catch (error) {
        freeRejected(message);
        throw toConnectError(error);
      }
    };
    if (prefix !== undefined)
      return handler({ ...request, body: checkStream(body, check, begin, limits) });
    const plain = new Headers(header);
    plain.delete(encodingHeader);
    plain.delete("content-length");
    return handler({
      ...request,
      header: plain,
      body: checkBody(body, check, encoding === "gzip", begin, limits),
    });
  };
  return Object.assign(limited, handler);
};

/** Frees a message that may be a thousand times as large as what was sent: it fills its buffer, but for the byte that gzip leaves. */
export const freeRejected = (message: Bytes): void =>
  freeBytes(message, { whole: message.buffer.byteLength === message.length + 1 });

/** The header that names a message's compression, for each protocol. */
const encodingHeaders: Readonly<Record<string, string>> = {
  unary: "content-encoding",
  grpc: "grpc-encoding",
  "grpc-web": "grpc-encoding",
  connect: "connect-content-encoding",
};

type Bytes = Uint8Array<ArrayBuffer>;
type Check = (message: Bytes) => Bytes;

const isStream = (body: UniversalServerRequest["body"]): body is AsyncIterable<Bytes> =>
  typeof body === "object" && body !== null && Symbol.asyncIterator in body;

async function* checkStream(
  body: AsyncIterable<Bytes>,
  check: Check,
  begin: () => Reception,
  { bytesMax, gzip, isUnary }: MessageLimits,
): AsyncGenerator<Bytes> {
  const reception = begin();
  const reader = createGrpcMessageReader(bytesMax, unpooled, tooLarge);
  let received = 0;
  try {
    for await (const chunk of reception.chunks(body)) {
      const messages = reader.push(chunk);
      received += chunk.length;
      if (isUnary) reception.hold(received, false);
      else reception.hold(reader.incompleteBytes(), messages.length > 0);
      for (const { compressed, data } of messages) {
        const message = compressed ? await gzip.decompress(data, bytesMax) : data;
        yield frameGrpcMessages([check(message)]);
      }
    }
  } catch (error) {
    throw translate(error);
  }
  if (reader.incompleteBytes() > 0)
    throw toConnectError(
      new Problem("frame_invalid", { detail: "the body ends inside a message" }),
    );
}

async function* checkBody(
  body: AsyncIterable<Bytes>,
  check: Check,
  compressed: boolean,
  begin: () => Reception,
  { bytesMax, gzip }: MessageLimits,
): AsyncGenerator<Bytes> {
  const held = async function* () {
    const reception = begin();
    let received = 0;
    for await (const chunk of reception.chunks(body)) {
      received += chunk.length;
      reception.hold(received, false);
      yield chunk;
    }
  };
  const sent = await readBytes(held(), bytesMax).catch((error: unknown) => {
    throw translate(error);
  });
  if (sent === null) throw tooLarge();
  const message = compressed ? await gzip.decompress(sent, bytesMax) : sent;
  yield check(message);
}

/** Leaves the failures of the connection to Connect. */
const translate = (error: unknown): unknown =>
  error instanceof Problem ? toConnectError(error) : error;

const tooLarge = () => toConnectError(new Problem("frame_too_large"));

/** What becomes less when a sender halves its frame. */
const divisible: ReadonlySet<string | undefined> = new Set([undefined, "envelopes", "attributes"]);

/**
 * Rejects an encoded message that holds more than `messageLimits` with `frame_too_large`, or `frame_invalid` where no smaller frame has less
 * of it; with `frame_invalid` also when that cannot be counted, even where a decoder would skip the fault.
 */
export const checkLimits = (check: (message: Uint8Array) => unknown, message: Uint8Array): void => {
  try {
    check(message);
  } catch (cause) {
    if (!(cause instanceof ProtobufError)) throw cause;
    const isLimit = cause instanceof WireLimitError;
    const detail = isLimit ? cause.message : "the message is not plain protobuf";
    throw new Problem(isLimit && divisible.has(cause.field) ? "frame_too_large" : "frame_invalid", {
      detail,
      cause,
    });
  }
};
