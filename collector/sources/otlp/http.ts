import type { IncomingMessage, ServerResponse } from "node:http";
import type { SourceRefusal } from "#proto/completeness/account.ts";
import { encodeGrpcStatus, type GrpcCode, GrpcError, grpcCodes } from "#proto/grpc-status.ts";
import type { CallerCheck } from "./caller-check.ts";
import type { Consume, ReadRequest } from "./consumer.ts";
import { contentEncodings, type Decompress, readContentEncodings } from "./decompress.ts";
import type { InFlightRequests } from "./in-flight-requests.ts";
import { HttpRefusal, partialSuccessOf, reportUnread, tooLarge, tooMuch } from "./refusals.ts";
import { encodeResponse, jsonResponse, type Signal } from "./signals.ts";
import { readTraceparent } from "./trace-consume.ts";

/** Formats of OTLP/HTTP (OTLP specification, "OTLP/HTTP"); a response has the format of its request. */
type Format = "protobuf" | "json";

const contentTypes: Record<Format, string> = {
  protobuf: "application/x-protobuf",
  json: "application/json",
};

/** The status of a refusal by its code. */
const statuses: Readonly<Partial<Record<GrpcCode, number>>> = {
  invalid_argument: 400,
  permission_denied: 403,
  not_found: 404,
  unimplemented: 405,
  resource_exhausted: 413,
  unavailable: 503,
};

/** Limits of the handler, and the callback for its failures. */
interface OtlpHttpOptions {
  /** The limit of a body before decompression; `decompress` limits its output. */
  bodyBytesMax: number;
  inFlight: InFlightRequests;
  decompress: Decompress;
  checkCaller: CallerCheck;
  /** Receives each export request that did not reach `consume`, and why. */
  onUnread(signal: Signal, reason: SourceRefusal): void;
  onError(error: unknown): void;
}

/** Handles OTLP/HTTP: POST of protobuf or JSON, plain or compressed. */
export const createOtlpHttpHandler =
  (signals: readonly Signal[], consume: Consume, options: OtlpHttpOptions) =>
  (request: IncomingMessage, response: ServerResponse): void => {
    const format = formatOf(request);
    const send = createSend(request, response, format ?? "json");
    answer(request, signals, consume, options, format)
      .then(({ signal, partial }) =>
        send(200, encodeResponse(partial), jsonResponse(signal, partial)),
      )
      .catch((error: unknown) => {
        const refusal =
          error instanceof GrpcError ? error : new GrpcError("internal", "the collector failed");
        if (refusal !== error && !request.destroyed) options.onError(error);
        const { code, message } = refusal;
        const { status, acceptEncoding } =
          refusal instanceof HttpRefusal ? refusal : { status: statuses[code] ?? 500 };
        if (status === 405) response.setHeader("Allow", "POST");
        if (acceptEncoding !== undefined) response.setHeader("Accept-Encoding", acceptEncoding);
        const retryAfterSeconds = refusal.retryAfterSeconds();
        if (retryAfterSeconds > 0) response.setHeader("Retry-After", retryAfterSeconds);
        send(status, encodeGrpcStatus(code, message), { code: grpcCodes[code], message });
      });
  };

const answer = async (
  request: IncomingMessage,
  signals: readonly Signal[],
  consume: Consume,
  options: OtlpHttpOptions,
  format: Format | undefined,
) => {
  const refusal = options.checkCaller(request.headers);
  if (refusal !== undefined) throw new GrpcError("permission_denied", refusal);
  const path = request.url?.split("?", 1)[0];
  const signal = signals.find((candidate) => candidate.path === path);
  if (signal === undefined)
    throw new GrpcError("not_found", "no such path; OTLP has /v1/traces, /v1/logs and /v1/metrics");
  if (request.method !== "POST") throw new GrpcError("unimplemented", "only POST is allowed");
  const read = await reportUnread(readRequest(request, signal, options, format), (reason) =>
    options.onUnread(signal, reason),
  );
  const isWanted = () => !request.socket.destroyed;
  const outcome = await consume(signal, read, isWanted, readTraceparent(request.headers));
  return { signal, partial: partialSuccessOf(outcome) };
};

/** Reads an export request as protobuf. */
const readRequest = async (
  request: IncomingMessage,
  signal: Signal,
  { bodyBytesMax, inFlight, decompress }: OtlpHttpOptions,
  format: Format | undefined,
): Promise<ReadRequest> => {
  if (format === undefined)
    throw new HttpRefusal(
      415,
      "the content type must be application/x-protobuf or application/json",
    );
  const encodings = readContentEncodings(request.headers["content-encoding"]);
  if (encodings === undefined) throw unknownEncoding();
  const body = await decompress(await readBody(request, bodyBytesMax, inFlight), encodings);
  if (format === "protobuf") return { payload: body };
  const { readJsonRequest } = await import("./json-request.ts");
  return readJsonRequest(signal, body);
};

const unknownEncoding = () => {
  const known = contentEncodings.join(", ");
  return new HttpRefusal(415, `the content encoding must be up to three of ${known}`, known);
};

const formatOf = (request: IncomingMessage): Format | undefined => {
  const type = request.headers["content-type"]?.split(";", 1)[0]?.trim().toLowerCase();
  if (type === contentTypes.protobuf) return "protobuf";
  return type === contentTypes.json ? "json" : undefined;
};

const readBody = async (
  request: IncomingMessage,
  bytesMax: number,
  inFlight: InFlightRequests,
): Promise<Buffer> => {
  if (Number(request.headers["content-length"] ?? 0) > bytesMax) throw tooLarge();
  const chunks: Buffer[] = [];
  let bytes = 0;
  let isDropped = false;
  const receiving = inFlight.begin(() => {
    isDropped = true;
    // Ends a request even if its sender has stopped sending.
    request.destroy();
  });
  try {
    for await (const chunk of request) {
      bytes += chunk.length;
      if (bytes > bytesMax) throw tooLarge();
      chunks.push(chunk);
      receiving.add(chunk.length);
    }
  } catch (error) {
    throw isDropped ? tooMuch() : error;
  } finally {
    receiving.end();
  }
  return chunks.length === 1 && chunks[0] !== undefined ? chunks[0] : Buffer.concat(chunks);
};

const createSend =
  (request: IncomingMessage, response: ServerResponse, format: Format) =>
  (status: number, protobuf: Uint8Array, json: object): void => {
    if (response.destroyed) return;
    const body = format === "protobuf" ? protobuf : JSON.stringify(json);
    // The unread rest of the body would otherwise be parsed as the next request on this connection.
    if (!request.complete) response.setHeader("Connection", "close");
    response.writeHead(status, { "Content-Type": contentTypes[format] });
    response.end(body);
  };
