import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { Code, ConnectError, createContextValues } from "@connectrpc/connect";
import type { Compression, UniversalHandler, UniversalServerRequest } from "@connectrpc/connect/protocol";
import { setTrailerStatus } from "@connectrpc/connect/protocol-grpc";
import type { BufferPool } from "../../kit/buffer-pool.ts";
import {
  ForwardRequestSchema,
  type ForwardResponse,
  ForwardResponseSchema,
} from "../../proto/gen/svc/ingest/v1/ingest_pb.js";
import { Problem } from "../problems.ts";
import { type Caller, type CallerCertificate, callerCertificateKey } from "./admission.ts";
import { toConnectError } from "./connect-error.ts";
import { checkEntries } from "./count-entries.ts";
import type { ExaminedFrame } from "./examine-frame.ts";
import type { ForwardMessage } from "./forward.ts";
import { createGrpcMessageReader, joinGrpcMessages } from "./grpc-messages.ts";

/** An answer to one message. */
export type ForwardAnswer = Extract<ForwardResponse["message"], { value: unknown }>;

/** What serves a stream, whatever it is carried by. */
export interface ForwardRun {
  admit(certificate: CallerCertificate | undefined): Promise<Caller>;
  run(
    requests: AsyncIterable<readonly ForwardMessage[]>,
    caller: Caller,
    gone: AbortSignal,
  ): AsyncIterable<ForwardAnswer[]>;
}

/** Options of the gRPC carrier. */
export interface GrpcForwardOptions extends ForwardRun {
  /** Reads an encoded `ForwardRequest` the short way; undefined where that cannot be. */
  readFrame(message: Uint8Array, caller: Caller): ExaminedFrame | undefined;
  readMaxBytes: number;
  /** For messages while they are read. */
  buffers: BufferPool;
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
    const requests = readRequests(request.body as AsyncIterable<Uint8Array<ArrayBuffer>>, caller, options);
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
  caller: Caller,
  { readMaxBytes, gzip, buffers, readFrame }: GrpcForwardOptions,
): AsyncGenerator<ForwardMessage[]> {
  const reader = createGrpcMessageReader(readMaxBytes, buffers, () => new Problem("frame_too_large"));
  const read = (data: Uint8Array<ArrayBuffer>): ForwardMessage => {
    const value = readFrame(data, caller);
    // What the generated code made of it would hold parts of it.
    if (value === undefined) return parse(data);
    buffers.give(data);
    return { case: "examined", value };
  };
  const inflate = async (data: Uint8Array<ArrayBuffer>): Promise<Uint8Array<ArrayBuffer>> => {
    const inflated = await gzip.decompress(data, readMaxBytes);
    buffers.give(data);
    return inflated;
  };
  for await (const chunk of body) {
    const messages = reader.push(chunk);
    if (messages.length === 0) continue;
    // One after the other: what is decompressed and not yet accounted for is one message.
    if (messages.some(({ compressed }) => compressed))
      for (const { compressed, data } of messages) yield [read(compressed ? await inflate(data) : data)];
    else yield messages.map(({ data }) => read(data));
  }
  if (!reader.isComplete()) throw new ConnectError("the stream ends inside a message", Code.InvalidArgument);
}

const parse = (bytes: Uint8Array): ForwardMessage => {
  checkEntries(bytes);
  try {
    return fromBinary(ForwardRequestSchema, bytes, { readUnknownFields: false }).message;
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
