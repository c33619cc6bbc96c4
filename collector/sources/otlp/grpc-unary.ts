import type { IncomingHttpHeaders, OutgoingHttpHeaders, ServerHttp2Stream } from "node:http2";
import { Code, ConnectError } from "@connectrpc/connect";
import { setTrailerStatus } from "@connectrpc/connect/protocol-grpc";
import { type Gunzip, GunzipError } from "./gunzip.ts";
import type { Readings } from "./readings.ts";

/**
 * Unary gRPC over HTTP/2 (grpc/doc/PROTOCOL-HTTP2.md), as little as a server of a few methods needs: one message in, one out, binary,
 * plain or gzip. A deadline is the client's to keep: it resets the stream, and the method may look whether it did.
 */

/** Answers the bytes of a request message with those of a response message; a refusal is a thrown `ConnectError`. */
export type UnaryMethod = (request: Buffer, isWanted: () => boolean) => Promise<Uint8Array>;

/** What bounds the methods, and who is told when one of them fails. */
export interface UnaryGrpcOptions {
  /** Of a message, before decompression; after it, `gunzip` says. */
  messageBytesMax: number;
  readings: Readings;
  gunzip: Gunzip;
  onError(error: unknown): void;
}

/** Serves the methods, by their paths, to the streams of an HTTP/2 server. */
export const createUnaryGrpcHandler =
  (methods: ReadonlyMap<string, UnaryMethod>, options: UnaryGrpcOptions) =>
  (stream: ServerHttp2Stream, headers: IncomingHttpHeaders): void => {
    // A connection that breaks ends its streams; whoever sent the request sees that as well.
    stream.on("error", () => undefined);
    const status = headers[":method"] !== "POST" ? 405 : isBinaryGrpc(headers["content-type"]) ? 200 : 415;
    if (status !== 200) {
      end(stream, { ":status": status });
      return;
    }
    const method = methods.get(headers[":path"] ?? "");
    if (method === undefined) {
      refuse(stream, new ConnectError("no such method", Code.Unimplemented));
      return;
    }
    readMessage(stream, headers["grpc-encoding"], options)
      .then((message) => method(message, () => !isGone(stream)))
      .then(
        (response) => succeed(stream, response),
        (error: unknown) => {
          if (!(error instanceof ConnectError)) options.onError(error);
          refuse(stream, error instanceof ConnectError ? error : new ConnectError("internal error", Code.Internal));
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
  if (isGone(stream)) return;
  stream.on("wantTrailers", () => stream.sendTrailers({ "grpc-status": "0" }));
  stream.respond(responseHeaders, { waitForTrailers: true });
  const framed = Buffer.alloc(prefixBytes + response.length);
  framed.writeUInt32BE(response.length, 1);
  framed.set(response, prefixBytes);
  stream.end(framed);
};

const refuse = (stream: ServerHttp2Stream, error: ConnectError): void => {
  if (isGone(stream)) return;
  end(stream, { ...responseHeaders, ...Object.fromEntries(setTrailerStatus(new Headers(), error)) });
};

/**
 * Answers with one block of headers that ends the stream, gRPC's "Trailers-Only": some senders never try again after anything else, as
 * a call whose response has begun counts as committed (gRFC A6, "When Retries are Valid"). What still comes of the request is let go:
 * a reset here could overtake the answer.
 */
const end = (stream: ServerHttp2Stream, headers: OutgoingHttpHeaders): void => {
  stream.respond(headers, { endStream: true });
  stream.resume();
};

/** Nobody would read an answer, and Node refuses to write one. */
const isGone = (stream: ServerHttp2Stream): boolean => stream.destroyed || stream.closed;

/** Before each message: its flags, and its length as 32 bits, big-endian. */
const prefixBytes = 5;
const compressedFlag = 1;

/** The one message of a request. Nothing of a message over the limit is kept once its length is known. */
const readMessage = async (
  stream: ServerHttp2Stream,
  encoding: string | string[] | undefined,
  { messageBytesMax, readings, gunzip }: UnaryGrpcOptions,
): Promise<Buffer> => {
  const body = await readBody(stream, prefixBytes + messageBytesMax, readings);
  if (body.length < prefixBytes || body.length !== prefixBytes + body.readUInt32BE(1))
    throw new ConnectError("the request is not one whole message", Code.Unimplemented);
  const message = body.subarray(prefixBytes);
  if ((body.readUInt8(0) & compressedFlag) === 0) return message;
  if (encoding !== "gzip") throw new ConnectError("the compression must be gzip or none", Code.Unimplemented);
  return await gunzip(message).catch((error: unknown) => {
    throw error instanceof GunzipError ? refusals[error.reason]() : error;
  });
};

/** All of the body. Events, as an iterator of a stream costs more than the rest of the request. */
const readBody = (stream: ServerHttp2Stream, bytesMax: number, readings: Readings): Promise<Buffer> =>
  new Promise((resolve, reject) => {
    let chunks: Buffer[] = [];
    let bytes = 0;
    const giveUp = (reason: ConnectError) => {
      chunks = [];
      stream.removeAllListeners("data");
      reading.end();
      reject(reason);
    };
    const reading = readings.begin(() => giveUp(tooMuch()));
    stream.on("data", (chunk: Buffer) => {
      chunks.push(chunk);
      bytes += chunk.length;
      if (bytes > bytesMax) giveUp(tooLarge());
      else reading.add(chunk.length);
    });
    stream.on("end", () => {
      reading.end();
      resolve(Buffer.concat(chunks));
    });
    stream.on("aborted", () => giveUp(new ConnectError("the client is gone", Code.Canceled)));
  });

const tooLarge = () => new ConnectError("the message is too large", Code.ResourceExhausted);

const tooMuch = () => new ConnectError("too much is being sent at once", Code.Unavailable);

const refusals: Record<GunzipError["reason"], () => ConnectError> = {
  malformed: () => new ConnectError("the message is not gzip", Code.InvalidArgument),
  too_large: tooLarge,
  busy: tooMuch,
};
