/*
 * OTLP/gRPC as unary gRPC over HTTP/2 (grpc/doc/PROTOCOL-HTTP2.md), without a library: one message in, one out, binary, plain or compressed. The
 * client enforces a deadline by a reset of the stream, which `isWanted` reports to the method.
 */
import type { IncomingHttpHeaders, OutgoingHttpHeaders, ServerHttp2Stream } from "node:http2";
import { freeBytes } from "#kit/free-bytes.ts";
import type { SourceRefusal } from "#proto/completeness/account.ts";
import {
  createGrpcMessageReader,
  frameGrpcMessages,
  type GrpcMessage,
} from "#proto/grpc-framing.ts";
import { GrpcError, grpcStatusHeaders } from "#proto/grpc-status.ts";
import type { CallerCheck } from "./caller-check.ts";
import type { Consume } from "./consumer.ts";
import { contentEncodings, type Decompress, readContentEncodings } from "./decompress.ts";
import type { InFlightRequest, InFlightRequests } from "./in-flight-requests.ts";
import { partialSuccessOf, reportUnread, tooLarge, tooMuch } from "./refusals.ts";
import { encodeResponse, type Signal } from "./signals.ts";
import { readTraceparent } from "./trace-consume.ts";

/** Answers an encoded request with an encoded response, or throws `GrpcError`. */
type UnaryMethod = (
  request: Uint8Array,
  isWanted: () => boolean,
  traceparent: string | undefined,
) => Promise<Uint8Array>;

/** Creates the methods of the OTLP/gRPC services, by their paths. They pass the received bytes to `consume`. */
export const otlpMethods = (
  signals: readonly Signal[],
  consume: Consume,
): Map<string, UnaryMethod> =>
  new Map(
    signals.map((signal) => [
      signal.grpcPath,
      async (request, isWanted, traceparent) => {
        const outcome = await consume(signal, { payload: request }, isWanted, traceparent);
        freeBytes(request);
        return encodeResponse(partialSuccessOf(outcome));
      },
    ]),
  );

/** Limits of the methods, and the callback for their failures. */
interface UnaryGrpcOptions {
  /** The limit of a message before decompression; `decompress` limits its output. */
  messageBytesMax: number;
  inFlight: InFlightRequests;
  decompress: Decompress;
  checkCaller: CallerCheck;
  /** Receives each request whose message did not reach its method, and why. */
  onUnread(path: string, reason: SourceRefusal): void;
  onError(error: unknown): void;
}

/** Creates a handler that serves the methods, by their paths, to the streams of an HTTP/2 server. */
export const createUnaryGrpcHandler =
  (methods: ReadonlyMap<string, UnaryMethod>, options: UnaryGrpcOptions) =>
  (stream: ServerHttp2Stream, headers: IncomingHttpHeaders): void => {
    // A broken connection ends its streams, for the sender too.
    stream.on("error", () => undefined);
    const status = httpStatusOf(headers);
    if (status !== 200) {
      end(stream, { ":status": status });
      return;
    }
    const refusal = options.checkCaller(headers);
    if (refusal !== undefined) {
      refuse(stream, new GrpcError("permission_denied", refusal));
      return;
    }
    const path = headers[":path"] ?? "";
    const method = methods.get(path);
    if (method === undefined) {
      refuse(stream, new GrpcError("unimplemented", "no such method"));
      return;
    }
    const reading = readMessage(stream, headers["grpc-encoding"], options);
    reportUnread(reading, (reason) => options.onUnread(path, reason))
      .then((message) => method(message, () => !isClosed(stream), readTraceparent(headers)))
      .then(
        (response) => succeed(stream, response),
        (error: unknown) => {
          const isRefusal = error instanceof GrpcError;
          if (!isRefusal) options.onError(error);
          refuse(stream, isRefusal ? error : new GrpcError("internal", "internal error"));
        },
      );
  };

const httpStatusOf = (headers: IncomingHttpHeaders): 200 | 405 | 415 => {
  if (headers[":method"] !== "POST") return 405;
  const contentType = headers["content-type"];
  return contentType === "application/grpc" || contentType === "application/grpc+proto" ? 200 : 415;
};

const responseHeaders = {
  ":status": 200,
  "content-type": "application/grpc+proto",
  "grpc-accept-encoding": [...contentEncodings, "identity"].join(),
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
 * Responds with one block of headers that ends the stream, gRPC's "Trailers-Only". Some senders retry only after that, because a call whose
 * response has begun is committed (gRFC A6, "When Retries are Valid"). Reads and drops the rest of the request: a reset could overtake the
 * response.
 */
const end = (stream: ServerHttp2Stream, headers: OutgoingHttpHeaders): void => {
  stream.respond(headers, { endStream: true });
  stream.resume();
};

/** Reports whether the client has closed the stream: Node then throws on a response. */
const isClosed = (stream: ServerHttp2Stream): boolean => stream.destroyed || stream.closed;

/** Reads the one message of a request. */
const readMessage = async (
  stream: ServerHttp2Stream,
  encoding: string | string[] | undefined,
  { messageBytesMax, inFlight, decompress }: UnaryGrpcOptions,
): Promise<Uint8Array> => {
  const message = await receiveMessage(stream, messageBytesMax, inFlight);
  if (!message.compressed) return message.data;
  const [known, ...others] = readContentEncodings(String(encoding)) ?? [];
  if (known === undefined || others.length > 0)
    throw new GrpcError(
      "unimplemented",
      `the compression must be one of ${contentEncodings.join(", ")}`,
    );
  return await decompress(message.data, [known]);
};

/**
 * Receives a body of one message. Uses events, because an async iterator costs more than the rest of the request. Copies each chunk into the
 * message at once: chunks that wait for a sync would outlive V8's young generation, and cause four full collections a second.
 */
const receiveMessage = (
  stream: ServerHttp2Stream,
  bytesMax: number,
  inFlight: InFlightRequests,
): Promise<GrpcMessage> =>
  new Promise((resolve, reject) => {
    let message: GrpcMessage | undefined;
    const fail = (reason: unknown) => {
      message = undefined;
      stream.removeAllListeners("data");
      receiving.end();
      reject(reason);
    };
    const receiving: InFlightRequest = inFlight.begin(() => fail(tooMuch()));
    const acquire = (bytes: number) => {
      receiving.add(bytes);
      return Buffer.allocUnsafeSlow(bytes);
    };
    const reader = createGrpcMessageReader(
      bytesMax,
      { acquire, release: () => undefined },
      tooLarge,
    );
    const receive = (chunk: Buffer<ArrayBuffer>) => {
      for (const found of reader.push(chunk)) {
        if (message !== undefined) throw notOneMessage();
        message = found;
        if (found.data.buffer === chunk.buffer) receiving.add(chunk.length);
      }
    };
    stream.on("data", (chunk: Buffer<ArrayBuffer>) => {
      try {
        receive(chunk);
      } catch (reason) {
        fail(reason);
      }
    });
    stream.on("end", () => {
      receiving.end();
      if (message === undefined || reader.incompleteBytes() > 0) reject(notOneMessage());
      else resolve(message);
    });
    stream.on("aborted", () => fail(new GrpcError("canceled", "the client disconnected")));
  });

const notOneMessage = () => new GrpcError("unimplemented", "the request is not one whole message");
