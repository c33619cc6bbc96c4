import type { IncomingHttpHeaders, OutgoingHttpHeaders, ServerHttp2Stream } from "node:http2";
import { unpooled } from "../../../kit/buffer-pool.ts";
import { freeBytes } from "../../../kit/free-bytes.ts";
import { createGrpcMessageReader, frameGrpcMessages } from "../../../proto/grpc-framing.ts";
import { GrpcError, grpcStatusHeaders, retryInfo } from "../../../proto/grpc-status.ts";
import type { CallerCheck } from "./caller-check.ts";
import type { Consume } from "./consumer.ts";
import { type Gunzip, GunzipError } from "./gunzip.ts";
import type { InFlightRequest, InFlightRequests } from "./in-flight-requests.ts";
import { encodeResponse, type Signal } from "./signals.ts";
import { readTraceparent } from "./trace-consume.ts";

/**
 * OTLP/gRPC on unary gRPC over HTTP/2 (grpc/doc/PROTOCOL-HTTP2.md), by hand: one message in, one out, binary, plain or gzip. The client
 * enforces a deadline by a reset of the stream, which `isWanted` shows to the method.
 */

/** Answers an encoded request with an encoded response, or throws `GrpcError`. */
export type UnaryMethod = (
  request: Uint8Array,
  isWanted: () => boolean,
  traceparent: string | undefined,
) => Promise<Uint8Array>;

/** Makes the methods of the OTLP/gRPC services, by their paths. They pass the received bytes on to `consume`. */
export const otlpMethods = (signals: readonly Signal[], consume: Consume): Map<string, UnaryMethod> =>
  new Map(
    signals.map((signal) => [
      signal.grpcPath,
      async (request, isWanted, traceparent) => {
        const outcome = await consume(signal, request, isWanted, traceparent);
        freeMessage(request);
        switch (outcome.status) {
          case "stored":
            return encodeResponse(undefined);
          case "partial":
          case "dropped":
            return encodeResponse(outcome);
          // Senders do not retry it, as they may with RESOURCE_EXHAUSTED.
          case "too_large":
          case "invalid":
            throw new GrpcError("invalid_argument", outcome.message);
          case "unavailable":
            throw new GrpcError("unavailable", outcome.message, { details: [retryInfo(outcome.retryAfterSeconds)] });
        }
      },
    ]),
  );

/** Limits of the methods, and the callback for their failures. */
export interface UnaryGrpcOptions {
  /** The limit of a message before decompression; `gunzip` limits its output. */
  messageBytesMax: number;
  inFlight: InFlightRequests;
  gunzip: Gunzip;
  checkCaller: CallerCheck;
  onError(error: unknown): void;
}

/** Makes a handler that serves the methods, by their paths, to the streams of an HTTP/2 server. */
export const createUnaryGrpcHandler =
  (methods: ReadonlyMap<string, UnaryMethod>, options: UnaryGrpcOptions) =>
  (stream: ServerHttp2Stream, headers: IncomingHttpHeaders): void => {
    // A broken connection ends its streams, for the sender too.
    stream.on("error", () => undefined);
    const status = headers[":method"] !== "POST" ? 405 : isBinaryGrpc(headers["content-type"]) ? 200 : 415;
    if (status !== 200) {
      end(stream, { ":status": status });
      return;
    }
    const refusal = options.checkCaller(headers);
    if (refusal !== undefined) {
      refuse(stream, new GrpcError("permission_denied", refusal));
      return;
    }
    const method = methods.get(headers[":path"] ?? "");
    if (method === undefined) {
      refuse(stream, new GrpcError("unimplemented", "no such method"));
      return;
    }
    readMessage(stream, headers["grpc-encoding"], options)
      .then((message) => method(message, () => !isClosed(stream), readTraceparent(headers)))
      .then(
        (response) => succeed(stream, response),
        (error: unknown) => {
          if (!(error instanceof GrpcError)) options.onError(error);
          refuse(stream, error instanceof GrpcError ? error : new GrpcError("internal", "internal error"));
        },
      );
  };

const isBinaryGrpc = (contentType: string | undefined): boolean =>
  contentType === "application/grpc" || contentType === "application/grpc+proto";

const responseHeaders = {
  ":status": 200,
  "content-type": "application/grpc+proto",
  "grpc-accept-encoding": "gzip,identity",
};

const succeed = (stream: ServerHttp2Stream, response: Uint8Array): void => {
  if (isClosed(stream)) return;
  stream.on("wantTrailers", () => stream.sendTrailers({ "grpc-status": "0" }));
  stream.respond(responseHeaders, { waitForTrailers: true });
  stream.end(frameGrpcMessages([response]));
};

const refuse = (stream: ServerHttp2Stream, error: GrpcError): void => {
  if (isClosed(stream)) return;
  end(stream, { ...responseHeaders, ...grpcStatusHeaders(error) });
};

/**
 * Answers with one block of headers that ends the stream, gRPC's "Trailers-Only": some senders retry after nothing else, as a call whose
 * response has begun counts as committed (gRFC A6, "When Retries are Valid"). Reads and drops the rest of the request: a reset here
 * could overtake the answer.
 */
const end = (stream: ServerHttp2Stream, headers: OutgoingHttpHeaders): void => {
  stream.respond(headers, { endStream: true });
  stream.resume();
};

/** Whether the client has closed the stream: Node then throws on a response. */
const isClosed = (stream: ServerHttp2Stream): boolean => stream.destroyed || stream.closed;

/** Reads the one message of a request. */
const readMessage = async (
  stream: ServerHttp2Stream,
  encoding: string | string[] | undefined,
  { messageBytesMax, inFlight, gunzip }: UnaryGrpcOptions,
): Promise<Uint8Array> => {
  const body = await readBody(stream, prefixBytes + messageBytesMax, inFlight);
  const reader = createGrpcMessageReader(messageBytesMax, unpooled, tooLarge);
  const [message, ...others] = reader.push(body);
  if (message === undefined || others.length > 0 || reader.incompleteBytes() > 0)
    throw new GrpcError("unimplemented", "the request is not one whole message");
  if (!message.compressed) return message.data;
  if (encoding !== "gzip") throw new GrpcError("unimplemented", "the compression must be gzip or none");
  return await gunzip(message.data).catch((error: unknown) => {
    throw error instanceof GunzipError ? refusals[error.reason]() : error;
  });
};

/** The bytes of the framing beside the message. */
const prefixBytes = 5;

/** Frees a message whose outcome is known, unless it lies in Node's pool, or among other bytes than its prefix. */
const freeMessage = (message: Uint8Array): void =>
  freeBytes(message, { whole: message.buffer.byteLength === message.length + prefixBytes });

/** Reads a body. By events, as an iterator of a stream costs more than the rest of the request. */
const readBody = (
  stream: ServerHttp2Stream,
  bytesMax: number,
  inFlight: InFlightRequests,
): Promise<Buffer<ArrayBuffer>> =>
  new Promise((resolve, reject) => {
    let chunks: Buffer[] = [];
    let bytes = 0;
    const fail = (reason: GrpcError) => {
      chunks = [];
      stream.removeAllListeners("data");
      receiving.end();
      reject(reason);
    };
    const receiving: InFlightRequest = inFlight.begin(() => fail(tooMuch()));
    stream.on("data", (chunk: Buffer) => {
      chunks.push(chunk);
      bytes += chunk.length;
      if (bytes > bytesMax) fail(tooLarge());
      else receiving.add(chunk.length);
    });
    stream.on("end", () => {
      receiving.end();
      resolve(Buffer.concat(chunks));
    });
    stream.on("aborted", () => fail(new GrpcError("canceled", "the client disconnected")));
  });

const tooLarge = () => new GrpcError("resource_exhausted", "the message is too large");

const tooMuch = () => new GrpcError("unavailable", "too much is being sent at once");

const refusals: Record<GunzipError["reason"], () => GrpcError> = {
  malformed: () => new GrpcError("invalid_argument", "the message is not gzip"),
  too_large: tooLarge,
  busy: tooMuch,
};
