import type { IncomingMessage, ServerResponse } from "node:http";
import { create, type DescMessage, type MessageShape, toBinary, toJsonString } from "@bufbuild/protobuf";
import { Code } from "@connectrpc/connect";
import { StatusSchema } from "../../../proto/gen/google/rpc/status_pb.js";
import { type Gunzip, GunzipError } from "./gunzip.ts";
import type { Intake } from "./intake.ts";
import { exportRequestFromJson, OtlpJsonError } from "./json.ts";
import type { Readings } from "./readings.ts";
import { partialResponse } from "./response.ts";
import type { Signal } from "./signals.ts";

/** Encodings of OTLP/HTTP (OTLP specification, "OTLP/HTTP"); an answer has the encoding of its request. */
type Encoding = "protobuf" | "json";

const contentTypes: Record<Encoding, string> = { protobuf: "application/x-protobuf", json: "application/json" };

/** A refusal before the intake. */
class HttpRefusal extends Error {
  readonly status: number;
  readonly code: Code;

  constructor(status: number, code: Code, message: string) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

/** What bounds the handler, and who is told when it fails. */
export interface OtlpHttpOptions {
  /** Of a body, before decompression; after it, `gunzip` says. */
  bodyBytesMax: number;
  readings: Readings;
  gunzip: Gunzip;
  onError(error: unknown): void;
}

/** Handles OTLP/HTTP: POST of protobuf or JSON, plain or gzip. */
export const createOtlpHttpHandler =
  (signals: readonly Signal[], intake: Intake, options: OtlpHttpOptions) =>
  (request: IncomingMessage, response: ServerResponse): void => {
    const encoding = encodingOf(request);
    const send = createSend(request, response, encoding ?? "json");
    answer(request, signals, intake, options, encoding)
      .then(({ signal, payload, outcome }) => {
        switch (outcome.status) {
          case "stored":
            return send(200, signal.response, create(signal.response));
          case "dropped":
            return send(200, signal.response, partialResponse(signal, payload, outcome.message));
          case "invalid":
            throw new HttpRefusal(400, Code.InvalidArgument, outcome.message);
          case "unavailable":
            response.setHeader("Retry-After", outcome.retryAfterSeconds);
            throw new HttpRefusal(503, Code.Unavailable, outcome.message);
        }
      })
      .catch((error: unknown) => {
        const refusal =
          error instanceof HttpRefusal ? error : new HttpRefusal(500, Code.Internal, "the collector failed");
        if (refusal !== error && !request.destroyed) options.onError(error);
        if (refusal.status === 405) response.setHeader("Allow", "POST");
        const { status, code, message } = refusal;
        send(status, StatusSchema, create(StatusSchema, { code, message }));
      });
  };

const answer = async (
  request: IncomingMessage,
  signals: readonly Signal[],
  intake: Intake,
  { bodyBytesMax, readings, gunzip }: OtlpHttpOptions,
  encoding: Encoding | undefined,
) => {
  const path = request.url?.split("?", 1)[0];
  const signal = signals.find((candidate) => candidate.path === path);
  if (signal === undefined)
    throw new HttpRefusal(404, Code.NotFound, "no such path; OTLP has /v1/traces, /v1/logs and /v1/metrics");
  if (request.method !== "POST") throw new HttpRefusal(405, Code.Unimplemented, "only POST is allowed");
  if (encoding === undefined)
    throw new HttpRefusal(
      415,
      Code.InvalidArgument,
      "the content type must be application/x-protobuf or application/json",
    );
  const body = await decompress(
    await readBody(request, bodyBytesMax, readings),
    request.headers["content-encoding"],
    gunzip,
  );
  const payload = encoding === "protobuf" ? body : parseJson(signal, body);
  return { signal, payload, outcome: await intake(signal, payload, () => !request.socket.destroyed) };
};

const encodingOf = (request: IncomingMessage): Encoding | undefined => {
  const type = request.headers["content-type"]?.split(";", 1)[0]?.trim().toLowerCase();
  return type === contentTypes.protobuf ? "protobuf" : type === contentTypes.json ? "json" : undefined;
};

const tooLarge = () => new HttpRefusal(413, Code.ResourceExhausted, "the request is too large");

const readBody = async (request: IncomingMessage, bytesMax: number, readings: Readings): Promise<Buffer> => {
  if (Number(request.headers["content-length"] ?? 0) > bytesMax) throw tooLarge();
  const chunks: Buffer[] = [];
  let bytes = 0;
  // Nothing less ends a request that does not go on.
  const reading = readings.begin(() => request.destroy());
  try {
    for await (const chunk of request) {
      bytes += chunk.length;
      if (bytes > bytesMax) throw tooLarge();
      chunks.push(chunk);
      reading.add(chunk.length);
    }
  } finally {
    reading.end();
  }
  return chunks.length === 1 && chunks[0] !== undefined ? chunks[0] : Buffer.concat(chunks);
};

const decompress = async (body: Buffer, header: string | undefined, gunzip: Gunzip): Promise<Uint8Array> => {
  const encoding = header?.trim().toLowerCase();
  if (encoding === undefined || encoding === "identity") return body;
  if (encoding !== "gzip")
    throw new HttpRefusal(415, Code.InvalidArgument, "the content encoding must be gzip or none");
  return await gunzip(body).catch((error: unknown) => {
    throw error instanceof GunzipError ? refusals[error.reason]() : error;
  });
};

const refusals: Record<GunzipError["reason"], () => HttpRefusal> = {
  malformed: () => new HttpRefusal(400, Code.InvalidArgument, "the body is not gzip"),
  too_large: tooLarge,
  busy: () => new HttpRefusal(503, Code.Unavailable, "too much is being sent at once"),
};

const parseJson = (signal: Signal, body: Uint8Array): Uint8Array => {
  try {
    return exportRequestFromJson(signal.request, new TextDecoder("utf-8", { fatal: true }).decode(body));
  } catch (error) {
    if (error instanceof OtlpJsonError || error instanceof TypeError)
      throw new HttpRefusal(400, Code.InvalidArgument, "the body is not an OTLP/JSON export request");
    throw error;
  }
};

const createSend =
  (request: IncomingMessage, response: ServerResponse, encoding: Encoding) =>
  (status: number, schema: DescMessage, message: MessageShape<DescMessage>): void => {
    if (response.destroyed) return;
    const body = encoding === "protobuf" ? toBinary(schema, message) : toJsonString(schema, message);
    // What was not read of the request would otherwise be taken for the next one on this connection.
    if (!request.complete) response.setHeader("Connection", "close");
    response.writeHead(status, { "Content-Type": contentTypes[encoding] });
    response.end(body);
  };
