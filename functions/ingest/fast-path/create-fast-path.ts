import { create, toBinary } from "@bufbuild/protobuf";
import type { BinaryReader } from "@bufbuild/protobuf/wire";
import { Code, ConnectError, createContextValues } from "@connectrpc/connect";
import type { UniversalHandler, UniversalServerRequest } from "@connectrpc/connect/protocol";
import { setTrailerStatus } from "@connectrpc/connect/protocol-grpc";
import { Problem } from "#functions/problems.ts";
import { createBufferPool } from "#kit/buffer-pool.ts";
import { forwardRequestMessage, frameMessage } from "#proto/gen/ingest-messages.ts";
import { ForwardResponseSchema } from "#proto/gen/svc/ingest/v1/ingest_pb.js";
import { createGrpcMessageReader, frameGrpcMessages } from "#proto/grpc-framing.ts";
import { queueIdBytes } from "#proto/limits/message-limits.ts";
import { decodeText, ProtobufError, readLength, readTag, readWire } from "#proto/wire.ts";
import { type Caller, callerCertificateKey } from "../admission.ts";
import { toConnectError } from "../connect-error.ts";
import { directBodiesKey } from "../direct-bodies.ts";
import type { ExaminedFrame, FrameLimits } from "../examine-frame.ts";
import type { DecodeMessage, ForwardAnswer, ForwardMessage } from "../forward.ts";
import { freeRejected } from "../limit-messages.ts";
import { frameOf, scanEnvelopes } from "../scan-envelopes.ts";
import type { SharedWithFastPath } from "../service.ts";

const idleBuffersBytesMax = 16 * 1024 * 1024;

/**
 * Returns a handler of Forward that serves binary gRPC by hand and leaves every other request (JSON, a deadline, other protocols and
 * compressions) to `plain`. Connect passes each message through ten generators, which costs a small sender's frame more than its
 * commit; here a chunk's messages are read, and acks written, together, and plain frames are checked without objects in between
 * (`readFrame`). `createIngest` works without it: the tests of ingest run both ways.
 */
export const createFastPath = (
  plain: UniversalHandler,
  shared: SharedWithFastPath,
): UniversalHandler => {
  const buffers = createBufferPool(idleBuffersBytesMax);

  /** Decompresses and decodes messages, each in its turn; a frame's buffer is released once it is committed. */
  async function* readMessages(
    { body, signal, contextValues }: UniversalServerRequest,
    caller: Caller,
  ): AsyncGenerator<DecodeMessage[]> {
    const { bytesMax, gzip, limits, clock } = shared;
    const reception = shared.incomplete.begin(caller.identity, signal);
    const reader = createGrpcMessageReader(bytesMax, buffers, () => new Problem("frame_too_large"));
    const decoding = (data: Bytes, isDecompressed: boolean) => (): ForwardMessage => {
      try {
        return decode(data);
      } catch (error) {
        if (isDecompressed) freeRejected(data);
        throw error;
      }
    };
    const decode = (data: Bytes): ForwardMessage => {
      const frame = readFrame(data, { identity: caller.identity, limits, receivedAt: clock.now() });
      if (frame !== undefined)
        return { case: "frame", value: { ...frame, release: () => buffers.release(data) } };
      const decoded = shared.decode(data, caller);
      // Objects of the generated code refer to the buffer as well, and nobody knows until when; a block that is stored as it came has none.
      if (decoded.case !== "frame" || !decoded.value.frame.run.compressed) return decoded;
      return { case: "frame", value: { ...decoded.value, release: () => buffers.release(data) } };
    };
    const decompress = async (data: Bytes): Promise<Bytes> => {
      const decompressed = await gzip.decompress(data, bytesMax);
      buffers.release(data);
      return decompressed;
    };
    const sent = contextValues?.get(directBodiesKey)?.chunks ?? (body as AsyncIterable<Bytes>);
    for await (const chunk of reception.chunks(sent)) {
      const messages = reader.push(chunk);
      reception.hold(reader.incompleteBytes(), messages.length > 0);
      if (messages.length === 0) continue;
      // One at a time: only one decompressed message is outside the byte budget.
      if (messages.some(({ compressed }) => compressed))
        for (const { compressed, data } of messages)
          yield [decoding(compressed ? await decompress(data) : data, compressed)];
      else yield messages.map(({ data }) => decoding(data, false));
    }
    if (reader.incompleteBytes() > 0)
      throw new ConnectError("the stream ends inside a message", Code.InvalidArgument);
  }

  async function* respond(
    request: UniversalServerRequest,
    trailer: Headers,
  ): AsyncGenerator<Bytes> {
    try {
      const values = request.contextValues ?? createContextValues();
      const caller = await shared.admit(values.get(callerCertificateKey));
      const requests = readMessages(request, caller);
      const bodies = values.get(directBodiesKey);
      const send = (answer: ForwardAnswer) =>
        bodies?.send(frameGrpcMessages([encodeAnswer(answer)])) ?? false;
      for await (const group of shared.run(requests, caller, request.signal, send))
        yield frameGrpcMessages(group.map(encodeAnswer));
      setTrailerStatus(trailer, undefined);
    } catch (error) {
      setTrailerStatus(trailer, toConnectError(error));
    }
  }

  const handle = async (request: UniversalServerRequest) => {
    if (!isBinaryGrpc(request)) return plain(request);
    const trailer = new Headers();
    return {
      status: 200,
      header: new Headers({
        "content-type": "application/grpc+proto",
        "grpc-accept-encoding": "gzip,identity",
      }),
      // The adapter sends the header with the first bytes, or with the error that comes instead.
      body: respond(request, trailer),
      trailer,
    };
  };
  return Object.assign(handle, plain);
};

type Bytes = Uint8Array<ArrayBuffer>;

const isBinaryGrpc = ({ method, header, body }: UniversalServerRequest): boolean =>
  method === "POST" &&
  /^application\/grpc(\+proto)?$/.test(header.get("content-type") ?? "") &&
  ["identity", "gzip"].includes(header.get("grpc-encoding") ?? "identity") &&
  !header.has("grpc-timeout") &&
  typeof body === "object" &&
  body !== null &&
  Symbol.asyncIterator in body;

const encodeAnswer = (message: ForwardAnswer): Uint8Array =>
  toBinary(ForwardResponseSchema, create(ForwardResponseSchema, { message }));

/** The context of reading a frame. */
interface FrameReading {
  /** The caller's. */
  identity: string;
  limits: FrameLimits;
  /** Milliseconds since the Unix epoch. */
  receivedAt: number;
}

const { frame: requestFrame } = forwardRequestMessage.tags;
const {
  hostId: frameHostId,
  queueId: frameQueueId,
  previousSequence: framePreviousSequence,
} = frameMessage.tags;

/**
 * Reads a `ForwardRequest` that holds a plain Frame off the wire (ingest.proto, `scanEnvelopes`), without an object for an envelope. Its envelopes
 * are a view of `message`. Returns undefined for all other messages: they are for the generated code and `examineFrame`, which define what a
 * frame means. A property test compares the two.
 */
export const readFrame = (
  message: Uint8Array,
  reading: FrameReading,
): ExaminedFrame | undefined => {
  if (message[0] !== requestFrame) return undefined;
  try {
    return readWire(message, (reader) => readPlainFrame(message, reader, reading));
  } catch (error) {
    if (error instanceof ProtobufError) return undefined;
    throw error;
  }
};

const readPlainFrame = (
  message: Uint8Array,
  reader: BinaryReader,
  { identity, limits, receivedAt }: FrameReading,
): ExaminedFrame | undefined => {
  const end = message.length;
  readTag(reader, end);
  if (readLength(reader, end) !== end) return undefined;
  if (identity.length > limits.hostIdBytesMax || readTag(reader, end) !== frameHostId)
    return undefined;
  if (decodeText(readBytes(message, reader)) !== identity) return undefined;
  if (readTag(reader, end) !== frameQueueId) return undefined;
  const queueId = Uint8Array.from(readBytes(message, reader));
  if (queueId.length !== queueIdBytes) return undefined;
  let previousSequence = 0n;
  if (message[reader.pos] === framePreviousSequence) {
    reader.pos++;
    // A string only where there is no BigInt.
    previousSequence = reader.uint64() as bigint;
  }
  const read = scanEnvelopes(message.subarray(reader.pos), limits, previousSequence);
  return read && frameOf(read, { hostId: identity, queueId, previousSequence, receivedAt });
};

const readBytes = (message: Uint8Array, reader: BinaryReader): Uint8Array => {
  const fieldEnd = readLength(reader, message.length);
  const field = message.subarray(reader.pos, fieldEnd);
  reader.pos = fieldEnd;
  return field;
};
