import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { type ChannelOptions, credentials, Metadata, makeClientConstructor } from "@grpc/grpc-js";
import { expect } from "vitest";
import type { Queue, QueueOptions } from "#collector/queue/queue.ts";
import { createOtlpSource } from "#collector/sources/otlp/otlp-source.ts";
import { systemClock } from "#kit/clock.ts";
import { ExportTraceServiceRequestSchema } from "#proto/gen/opentelemetry/proto/collector/trace/v1/trace_service_pb.js";
import { createTestLog } from "#tests/fakes/log.ts";
import { newFolder } from "#tests/support/new-folder.ts";
import { openTestQueue, readAll } from "#tests/support/queue.ts";

/** An `otlp` source on free loopback ports, with its queue and clients. */
export type TestOtlp = Awaited<ReturnType<typeof startTestOtlp>>;

/** Starts an `otlp` source. */
export const startTestOtlp = async (
  options: {
    queue?: Partial<QueueOptions>;
    limits?: Parameters<typeof createOtlpSource>[2];
    host?: string;
    allowedHosts?: string[];
  } = {},
) => {
  const queue = openTestQueue(newFolder(), options.queue);
  let appends = 0;
  const append: Queue["append"] = (...call) => {
    appends += 1;
    return queue.append(...call);
  };
  const { host = "127.0.0.1", allowedHosts = [] } = options;
  const listener = { listen: `${host}:0`, allowedHosts };
  const source = createOtlpSource(
    { grpc: listener, http: listener },
    { append, refused: queue.accounts.refused, clock: systemClock, log: createTestLog() },
    options.limits,
  );
  await source.start();
  return {
    source,
    queue,
    /** Returns how many requests reached the queue so far. */
    appends: () => appends,
    /** Returns the records in the queue. */
    envelopes: () => readAll(queue),
    /** Expects spans of these names in the queue, and no others. */
    expectSpans: (...expected: string[]) => {
      const spans = readAll(queue).flatMap(({ payload }) => spansOf(payload));
      expect(spans.map(({ name }) => name)).toEqual(expected);
    },
    /** Calls `exportByGrpc` with this source. */
    exportByGrpc: (payload: Uint8Array, service?: string) =>
      exportByGrpc(source.addresses.grpc ?? "", payload, {}, service),
    /** Sends an OTLP/HTTP request, as protobuf by default. */
    post: (path: string, body: BodyInit, headers: Record<string, string> = {}, method = "POST") =>
      fetch(`http://${source.addresses.http}${path}`, {
        method,
        headers: { "content-type": "application/x-protobuf", ...headers },
        ...(method === "GET" ? {} : { body }),
      }),
    close: async () => {
      await source.stop();
      await queue.close();
    },
  };
};

/** Returns the spans of an export request. */
export const spansOf = (payload: Uint8Array) =>
  fromBinary(ExportTraceServiceRequestSchema, payload).resourceSpans.flatMap(({ scopeSpans }) =>
    scopeSpans.flatMap(({ spans }) => spans),
  );

/** Encodes an export request of spans with these names, in one resource and scope. */
export const traceRequest = (names: readonly string[]) =>
  toBinary(
    ExportTraceServiceRequestSchema,
    create(ExportTraceServiceRequestSchema, {
      resourceSpans: [
        {
          resource: {
            attributes: [
              { key: "service.name", value: { value: { case: "stringValue", value: "shop" } } },
            ],
          },
          scopeSpans: [
            {
              scope: { name: "scope" },
              spans: names.map((name) => ({ name, traceId: new Uint8Array(16) })),
            },
          ],
          schemaUrl: "https://schema.test",
        },
      ],
    }),
  );

/** Calls `Export` of a service at `address` with grpc-js: bytes in, bytes out. */
export const exportByGrpc = (
  address: string,
  payload: Uint8Array,
  options: ChannelOptions = {},
  service = "trace.v1.TraceService",
  headers: Readonly<Record<string, string>> = {},
): Promise<Uint8Array> => {
  const path = `/opentelemetry.proto.collector.${service}/Export`;
  const bytes = (value: Uint8Array) => Buffer.from(value);
  const Client = makeClientConstructor(
    {
      export: {
        path,
        requestStream: false,
        responseStream: false,
        requestSerialize: bytes,
        requestDeserialize: bytes,
        responseSerialize: bytes,
        responseDeserialize: bytes,
      },
    },
    "Export",
  );
  const client = new Client(address, credentials.createInsecure(), options);
  const metadata = new Metadata();
  for (const [name, value] of Object.entries(headers)) metadata.set(name, value);
  return new Promise<Uint8Array>((resolve, reject) => {
    client.makeUnaryRequest(path, bytes, bytes, payload, metadata, {}, (error, value) =>
      error === null ? resolve(value ?? new Uint8Array()) : reject(error),
    );
  }).finally(() => client.close());
};
