import type { BinaryReader } from "@bufbuild/protobuf/wire";
import type { ContextValues } from "@connectrpc/connect";
import type { Compression, UniversalHandler, UniversalServerRequest } from "@connectrpc/connect/protocol";
import { unpooled } from "../../kit/buffer-pool.ts";
import { readBytes } from "../../kit/bytes.ts";
import { createGrpcMessageReader, frameGrpcMessages } from "../../proto/grpc-framing.ts";
import { eachValue, ProtobufError, readWire } from "../../proto/wire.ts";
import { Problem } from "../problems.ts";
import { toConnectError } from "./connect-error.ts";
import { entriesMax } from "./examine-frame.ts";
import type { Reception } from "./incomplete-messages.ts";

/** The number of `frame` in the messages that hold one (ingest.proto). */
export const frameField = { forward: 2, submit: 1 } as const;

/** Limits of the messages of one method. */
export interface MessageLimits {
  /** The number of the field that holds the frame, from `frameField`. */
  field: number;
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
 * Rejects messages with `frame_too_large` before Connect decodes them: over `bytesMax` as soon as their length is known, and with too
 * many envelopes and attributes, as a few kilobytes of gzip can hold two million empty ones, which core would decode for a second.
 * Compressed messages reach the handler decompressed. Connect rejects other encodings than gzip, without reading the body.
 */
export const limitMessages = (handler: UniversalHandler, limits: MessageLimits): UniversalHandler => {
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
        if (codec === "json") checkJsonEntries(message);
        else checkEntries(message, limits.field);
        return limits.decode?.(message, codec, request.contextValues) ?? message;
      } catch (error) {
        throw toConnectError(error);
      }
    };
    if (prefix !== undefined) return handler({ ...request, body: checkStream(body, check, begin, limits) });
    const plain = new Headers(header);
    plain.delete(encodingHeader);
    plain.delete("content-length");
    return handler({ ...request, header: plain, body: checkBody(body, check, encoding === "gzip", begin, limits) });
  };
  return Object.assign(limited, handler);
};

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
    throw toConnectError(new Problem("frame_invalid", { detail: "the body ends inside a message" }));
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
const translate = (error: unknown): unknown => (error instanceof Problem ? toConnectError(error) : error);

const tooLarge = () => toConnectError(new Problem("frame_too_large"));

/** An envelope or an attribute takes a tag and a length at least. */
const entryBytesMin = 2;

/**
 * Rejects an encoded request that holds more than `entriesMax` envelopes and attributes with `frame_too_large`: envelopes = 4,
 * attributes = 5 (ingest.proto). Rejects one that could hold so many, and whose entries it cannot count, with `frame_invalid`, even
 * where a decoder would skip the fault.
 */
export const checkEntries = (request: Uint8Array, field: number = frameField.forward): void =>
  limitEntries(request, (reader, count) =>
    eachValue(reader, request.length, field, (frameEnd) => countEntries(reader, frameEnd, count)),
  );

/** Rejects an encoded `Envelopes` as `checkEntries` does. */
export const checkEnvelopes = (envelopes: Uint8Array): void =>
  limitEntries(envelopes, (reader, count) => countEntries(reader, envelopes.length, count));

const limitEntries = (bytes: Uint8Array, read: (reader: BinaryReader, count: () => void) => void): void => {
  if (bytes.length < entriesMax * entryBytesMin) return;
  let entries = 0;
  try {
    readWire(bytes, (reader) => read(reader, () => void entries++));
  } catch (cause) {
    if (!(cause instanceof ProtobufError)) throw cause;
    throw new Problem("frame_invalid", { detail: "the message is not plain protobuf", cause });
  }
  if (entries > entriesMax) throw new Problem("frame_too_large");
};

const countEntries = (reader: BinaryReader, end: number, count: () => void): void =>
  eachValue(reader, end, 4, (envelopeEnd) => {
    count();
    eachValue(reader, envelopeEnd, 5, count);
  });

const [brace, bracket, quote, backslash, colon] = [0x7b, 0x5b, 0x22, 0x5c, 0x3a];
/** Members of an envelope in JSON beside its attributes: sequence, kind, source and payload, or some of them. */
const membersOfEnvelope = 4;

/** Bounds the objects, arrays and members of a request in JSON: not an exact count of entries, but of what parsing costs. */
export const checkJsonEntries = (request: Uint8Array): void => {
  let nested = 0;
  let members = 0;
  let isText = false;
  for (let at = 0; at < request.length; at++) {
    const byte = request[at];
    if (byte === quote) isText = !isText;
    else if (isText) {
      if (byte === backslash) at++;
    } else if (byte === brace || byte === bracket) nested++;
    else if (byte === colon) members++;
  }
  if (nested > 2 * entriesMax || members > (membersOfEnvelope + 1) * entriesMax) throw new Problem("frame_too_large");
};
