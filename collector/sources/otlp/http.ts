import type { IncomingMessage, ServerResponse } from "node:http";
import type { JsonValue } from "@bufbuild/protobuf";
import { JsonDepthError, JsonLimitError, jsonLimits, parseForeignJson } from "#kit/foreign-json.ts";
import type { SourceRefusal } from "#proto/completeness/account.ts";
import { encodeGrpcStatus, type GrpcCode, GrpcError, grpcCodes } from "#proto/grpc-status.ts";
import type { Consume } from "./consumer.ts";
import type { Gunzip } from "./gunzip.ts";
import type { CallerCheck, InFlightRequests } from "./otlp-source.ts";
import { HttpRefusal, partialSuccessOf, reportUnread, tooLarge, tooMuch } from "./refusals.ts";
import { encodeResponse, jsonResponse, type Signal } from "./signals.ts";
import { readTraceparent } from "./trace-consume.ts";

/** Encodings of OTLP/HTTP (OTLP specification, "OTLP/HTTP"); a response has the encoding of its request. */
type Encoding = "protobuf" | "json";

const contentTypes: Record<Encoding, string> = {
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
  /** The limit of a body before decompression; `gunzip` limits its output. */
  bodyBytesMax: number;
  inFlight: InFlightRequests;
  gunzip: Gunzip;
  checkCaller: CallerCheck;
  /** Receives each export request that did not reach `consume`, and why. */
  onUnread(signal: Signal, reason: SourceRefusal): void;
  onError(error: unknown): void;
}

/** Handles OTLP/HTTP: POST of protobuf or JSON, plain or gzip. */
export const createOtlpHttpHandler =
  (signals: readonly Signal[], consume: Consume, options: OtlpHttpOptions) =>
  (request: IncomingMessage, response: ServerResponse): void => {
    const encoding = encodingOf(request);
    const send = createSend(request, response, encoding ?? "json");
    answer(request, signals, consume, options, encoding)
      .then(({ signal, partial }) =>
        send(200, encodeResponse(partial), jsonResponse(signal, partial)),
      )
      .catch((error: unknown) => {
        const refusal =
          error instanceof GrpcError ? error : new GrpcError("internal", "the collector failed");
        if (refusal !== error && !request.destroyed) options.onError(error);
        const { code, message } = refusal;
        const status = refusal instanceof HttpRefusal ? refusal.status : (statuses[code] ?? 500);
        if (status === 405) response.setHeader("Allow", "POST");
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
  encoding: Encoding | undefined,
) => {
  const refusal = options.checkCaller(request.headers);
  if (refusal !== undefined) throw new GrpcError("permission_denied", refusal);
  const path = request.url?.split("?", 1)[0];
  const signal = signals.find((candidate) => candidate.path === path);
  if (signal === undefined)
    throw new GrpcError("not_found", "no such path; OTLP has /v1/traces, /v1/logs and /v1/metrics");
  if (request.method !== "POST") throw new GrpcError("unimplemented", "only POST is allowed");
  const payload = await reportUnread(readPayload(request, signal, options, encoding), (reason) =>
    options.onUnread(signal, reason),
  );
  const isWanted = () => !request.socket.destroyed;
  const outcome = await consume(signal, payload, isWanted, readTraceparent(request.headers));
  return { signal, partial: partialSuccessOf(outcome) };
};

/** Returns an export request as protobuf. */
const readPayload = async (
  request: IncomingMessage,
  signal: Signal,
  { bodyBytesMax, inFlight, gunzip }: OtlpHttpOptions,
  encoding: Encoding | undefined,
): Promise<Uint8Array> => {
  if (encoding === undefined)
    throw new HttpRefusal(
      415,
      "the content type must be application/x-protobuf or application/json",
    );
  const body = await decompress(
    await readBody(request, bodyBytesMax, inFlight),
    request.headers["content-encoding"],
    gunzip,
  );
  return encoding === "protobuf" ? body : await parseJson(signal, body);
};

const encodingOf = (request: IncomingMessage): Encoding | undefined => {
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

const decompress = async (
  body: Buffer,
  header: string | undefined,
  gunzip: Gunzip,
): Promise<Uint8Array> => {
  const encoding = header?.trim().toLowerCase();
  if (encoding === undefined || encoding === "identity") return body;
  if (encoding !== "gzip") throw new HttpRefusal(415, "the content encoding must be gzip or none");
  return await gunzip(body);
};

/** Converts an export request in OTLP/JSON to protobuf: ids in hex, unknown members ignored, enums by number or name. */
const parseJson = async (signal: Signal, body: Uint8Array): Promise<Uint8Array> => {
  const { requestFromJson } = await import("./schemas.ts");
  try {
    const json = parseForeignJson(body, jsonLimits.otlp) as JsonValue;
    encodeIds(json);
    return requestFromJson(signal, json);
  } catch (error) {
    if (error instanceof JsonLimitError && !(error instanceof JsonDepthError))
      throw new GrpcError("resource_exhausted", `${error.message}: send fewer items at once`);
    // The parsers' errors have no types of their own, and their messages quote the body.
    throw new GrpcError("invalid_argument", "the body is not an OTLP/JSON export request");
  }
};

/** The fields that OTLP/JSON writes in hex where protobuf's JSON has base64. As member names they occur nowhere else. */
const idFields = new Set([
  "traceId",
  "spanId",
  "parentSpanId",
  "trace_id",
  "span_id",
  "parent_span_id",
]);

/** Converts the ids to base64, in place: a copy would double the memory. */
const encodeIds = (value: JsonValue): void => {
  if (typeof value !== "object" || value === null) return;
  if (Array.isArray(value)) {
    for (const item of value) encodeIds(item);
    return;
  }
  for (const name of Object.keys(value)) {
    const member = value[name] as JsonValue;
    if (typeof member === "string" && idFields.has(name))
      value[name] = Uint8Array.fromHex(member).toBase64();
    else encodeIds(member);
  }
};

const createSend =
  (request: IncomingMessage, response: ServerResponse, encoding: Encoding) =>
  (status: number, protobuf: Uint8Array, json: object): void => {
    if (response.destroyed) return;
    const body = encoding === "protobuf" ? protobuf : JSON.stringify(json);
    // The unread rest of the body would otherwise be parsed as the next request on this connection.
    if (!request.complete) response.setHeader("Connection", "close");
    response.writeHead(status, { "Content-Type": contentTypes[encoding] });
    response.end(body);
  };
