import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { Code, ConnectError, createContextValues } from "@connectrpc/connect";
import type { Compression, UniversalHandler, UniversalServerRequest } from "@connectrpc/connect/protocol";
import { setTrailerStatus } from "@connectrpc/connect/protocol-grpc";
import {
  type ForwardRequest,
  ForwardRequestSchema,
  type ForwardResponse,
  ForwardResponseSchema,
} from "../../proto/gen/svc/ingest/v1/ingest_pb.js";
import { Problem } from "../problems.ts";
import { type Caller, type CallerCertificate, callerCertificateKey } from "./admission.ts";
import { toConnectError } from "./connect-error.ts";
import { holdsTooManyEntries } from "./count-entries.ts";
import { createGrpcMessageReader, type GrpcMessage, joinGrpcMessages } from "./grpc-messages.ts";

/** An answer to one message. */
export type ForwardAnswer = Extract<ForwardResponse["message"], { value: unknown }>;

/** What serves a stream, whatever it is carried by. */
export interface ForwardRun {
  admit(certificate: CallerCertificate | undefined): Promise<Caller>;
  run(
    requests: AsyncIterable<readonly ForwardRequest[]>,
    caller: Caller,
    gone: AbortSignal,
  ): AsyncIterable<ForwardAnswer[]>;
}

/** Options of the gRPC carrier. */
export interface GrpcForwardOptions extends ForwardRun {
  readMaxBytes: number;
  /** Bounds its output before it is made. */
  gzip: Compression;
}

/**
 * Forward over gRPC, by hand where it is hot: Connect passes each message through ten generators, which is fine for everything else
 * and costs a small sender's frame more than its commit. Messages are read and acks written as many at a time as there are; what is
 * unusual (JSON, a deadline, other compressions) goes to Connect's own handler.
 */
export const createGrpcForward = (usual: UniversalHandler, options: GrpcForwardOptions): UniversalHandler => {
  const handle = async (request: UniversalServerRequest) => {
    if (!isPlain(request)) return usual(request);
    const trailer = new Headers();
    const answers = answer(request, options, trailer);
    // The status line waits for the first bytes, or for the refusal that comes instead.
    const first = await answers.next();
    return {
      status: 200,
      header: new Headers({ "content-type": "application/grpc+proto", "grpc-accept-encoding": "gzip,identity" }),
      body: prepend(first, answers),
      trailer,
    };
  };
  return Object.assign(handle, usual);
};

const isPlain = ({ method, header, body }: UniversalServerRequest): boolean =>
  method === "POST" &&
  /^application\/grpc(\+proto)?$/.test(header.get("content-type") ?? "") &&
  ["identity", "gzip"].includes(header.get("grpc-encoding") ?? "identity") &&
  !header.has("grpc-timeout") &&
  typeof body === "object" &&
  body !== null &&
  Symbol.asyncIterator in body;

async function* answer(
  request: UniversalServerRequest,
  options: GrpcForwardOptions,
  trailer: Headers,
): AsyncGenerator<Uint8Array<ArrayBuffer>> {
  try {
    const values = request.contextValues ?? createContextValues();
    const caller = await options.admit(values.get(callerCertificateKey));
    const requests = readRequests(request.body as AsyncIterable<Uint8Array<ArrayBuffer>>, options);
    for await (const group of options.run(requests, caller, request.signal)) yield joinGrpcMessages(group.map(encode));
    setTrailerStatus(trailer, undefined);
  } catch (error) {
    setTrailerStatus(trailer, toConnectError(error));
  }
}

const encode = (message: ForwardAnswer): Uint8Array =>
  toBinary(ForwardResponseSchema, create(ForwardResponseSchema, { message }));

async function* readRequests(
  body: AsyncIterable<Uint8Array<ArrayBuffer>>,
  { readMaxBytes, gzip }: GrpcForwardOptions,
): AsyncGenerator<ForwardRequest[]> {
  const reader = createGrpcMessageReader(readMaxBytes, () => new Problem("frame_too_large"));
  const decode = async ({ compressed, data }: GrpcMessage): Promise<ForwardRequest> =>
    parse(compressed ? await gzip.decompress(data, readMaxBytes) : data);
  for await (const chunk of body) {
    const messages = reader.push(chunk);
    if (messages.length === 0) continue;
    // One after the other: what is decompressed and not yet accounted for is one message.
    if (messages.some(({ compressed }) => compressed)) for (const message of messages) yield [await decode(message)];
    else yield messages.map(({ data }) => parse(data));
  }
  if (!reader.isComplete()) throw new ConnectError("the stream ends inside a message", Code.InvalidArgument);
}

const parse = (bytes: Uint8Array): ForwardRequest => {
  if (holdsTooManyEntries(bytes)) throw new Problem("frame_too_large");
  try {
    return fromBinary(ForwardRequestSchema, bytes);
  } catch (cause) {
    throw new Problem("frame_invalid", { detail: "the message is not a ForwardRequest", cause });
  }
};

async function* prepend<T>(first: IteratorResult<T>, rest: AsyncGenerator<T>): AsyncGenerator<T> {
  if (first.done) return;
  try {
    yield first.value;
    yield* rest;
  } finally {
    await rest.return(undefined);
  }
}
