/*
 * The behaviour of foreign senders when the queue has no room. A request is rejected as a whole or stored as a whole, so that one that is resent
 * after a rejection is stored once; and success is never reported for a request that is not stored.
 */

import { connect, constants } from "node:http2";
import { OTLPTraceExporter as GrpcExporter } from "@opentelemetry/exporter-trace-otlp-grpc";
import { OTLPTraceExporter as HttpExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { BatchSpanProcessor, type SpanExporter, TracerProvider } from "@opentelemetry/sdk-trace";
import { expect, it, type TestContext } from "vitest";
import { execute } from "#scripts/execute.ts";
import {
  exportByGrpc,
  startTestOtlp,
  type TestOtlp,
  traceRequest,
} from "#tests/collector/support/otlp.ts";
import { eventually } from "#tests/support/eventually.ts";

/** The addresses of an `otlp` source, `host:port` each. */
interface OtlpAddresses {
  readonly grpc?: string;
  readonly http?: string;
}

/** Sends spans of these names as one request; resolves on a response that all are stored, rejects after its last retry. */
type OtlpSender = (to: OtlpAddresses, names: readonly string[]) => Promise<void>;

const timeoutMs = 60_000;

/** Third-party senders that retry a rejected request by themselves. */
const patientSenders: Readonly<Record<string, OtlpSender>> = {
  "the OpenTelemetry SDK over HTTP/protobuf": ({ http }, names) =>
    sendBySdk(
      new HttpExporter({ url: `http://${http}/v1/traces`, timeoutMillis: timeoutMs }),
      names,
    ),
  "OTLP/JSON posted by curl --retry": async ({ http }, names) => {
    const options = [
      "--fail",
      "--silent",
      "--retry",
      "9",
      "--header",
      "content-type: application/json",
    ];
    await execute("curl", [...options, "--data", jsonRequest(names), `http://${http}/v1/traces`], {
      timeout: timeoutMs,
    });
  },
  "gRPC with a retry policy": async ({ grpc = "" }, names) => {
    await exportByGrpc(grpc, traceRequest(names), { "grpc.service_config": retryPolicy });
  },
};

/** The SDK over gRPC: its exporter (0.301) does not retry a rejected request. */
const sendBySdkOverGrpc: OtlpSender = ({ grpc }, names) =>
  sendBySdk(new GrpcExporter({ url: `http://${grpc}`, timeoutMillis: timeoutMs }), names);

const sendBySdk = async (exporter: SpanExporter, names: readonly string[]): Promise<void> => {
  let failure: unknown;
  const watched: SpanExporter = {
    export: (spans, done) =>
      exporter.export(spans, (result) => {
        if (result.code !== 0) failure = result.error ?? new Error("the export failed");
        done(result);
      }),
    shutdown: () => exporter.shutdown(),
  };
  const processor = new BatchSpanProcessor({ exporter: watched, exportTimeoutMillis: timeoutMs });
  const provider = new TracerProvider({ spanProcessors: [processor] });
  const tracer = provider.getTracer("tests");
  for (const name of names) tracer.startSpan(name).end();
  await provider.forceFlush().catch(() => undefined);
  await provider.shutdown();
  if (failure !== undefined) throw failure;
};

/** As opentelemetry-python words it: ids in hex, numbers of 64 bits as text. */
const jsonRequest = (names: readonly string[]): string =>
  JSON.stringify({
    resourceSpans: [
      {
        resource: {
          attributes: [{ key: "telemetry.sdk.language", value: { stringValue: "python" } }],
        },
        scopeSpans: [
          {
            scope: { name: "tests" },
            spans: names.map((name, index) => ({
              traceId: "5b8efff798038103d269b633813fc60c",
              spanId: `eee19b7ec3c1b1${index.toString(16).padStart(2, "0")}`,
              name,
              kind: 1,
              startTimeUnixNano: "1544712660000000000",
              endTimeUnixNano: "1544712661000000000",
            })),
          },
        ],
      },
    ],
  });

const retryPolicy = JSON.stringify({
  methodConfig: [
    {
      name: [{}],
      retryPolicy: {
        maxAttempts: 5,
        initialBackoff: "0.5s",
        maxBackoff: "5s",
        backoffMultiplier: 2,
        retryableStatusCodes: ["UNAVAILABLE"],
      },
    },
  ],
});

/** Starts a source whose queue has no room until `makeRoom`; it ends with the test. */
const startFull = async ({ onTestFinished }: TestContext, roomTimeoutMs: number) => {
  const otlp = await startTestOtlp({
    queue: { maxDiskUsageBytes: 10_000 },
    limits: { roomTimeoutMs },
  });
  onTestFinished(otlp.close);
  await otlp.exportByGrpc(traceRequest(["in the way".padEnd(9_800, ".")]));
  return { otlp, makeRoom: () => otlp.queue.ack(otlp.queue.lastSequence) };
};

const rejections = (otlp: TestOtlp) => otlp.source.counters?.().unavailable ?? 0;

const names = Array.from({ length: 20 }, (_, index) => `span ${index}`);

/** Sends one request as HTTP/2 frames, to observe what clients hide. */
const sendRaw = (otlp: TestOtlp, spans: readonly string[]) => {
  const session = connect(`http://${otlp.source.addresses.grpc}`);
  const stream = session.request({
    ":method": "POST",
    ":path": "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
    "content-type": "application/grpc",
    te: "trailers",
  });
  const message = traceRequest(spans);
  const prefix = Buffer.alloc(5);
  prefix.writeUInt32BE(message.length, 1);
  stream.end(Buffer.concat([prefix, message]));
  return { session, stream };
};

it.concurrent.for(Object.entries(patientSenders))(
  "rejects %s, which retries by itself, and stores everything once when there is room",
  async ([, send], context) => {
    const { otlp, makeRoom } = await startFull(context, 20);
    const sent = send(otlp.source.addresses, names);
    await eventually(() => expect(rejections(otlp)).toBeGreaterThan(0));
    expect(otlp.envelopes()).toHaveLength(1);
    await makeRoom();
    await sent;
    otlp.expectSpans(...names);
    expect(otlp.queue.stats()).toMatchObject({ records: 1, droppedRecordsTotal: 0 });
  },
);

it("reports UNAVAILABLE to the SDK over gRPC, which does not retry", async (context) => {
  const { otlp } = await startFull(context, 200);
  await expect(sendBySdkOverGrpc(otlp.source.addresses, names)).rejects.toThrow("UNAVAILABLE");
  expect([rejections(otlp), otlp.envelopes().length]).toEqual([1, 1]);
});

it("stores a request of the SDK over gRPC when there is room while it waits", async (context) => {
  const { otlp, makeRoom } = await startFull(context, 60_000);
  const waiting = sendBySdkOverGrpc(otlp.source.addresses, names);
  await eventually(() => expect(otlp.appends()).toBe(2));
  await makeRoom();
  await waiting;
  otlp.expectSpans(...names);
});

it("drops a waiting request whose sender has disconnected, so that it is stored once when it is resent", async (context) => {
  const { otlp, makeRoom } = await startFull(context, 60_000);
  const { session, stream } = sendRaw(otlp, names);
  await eventually(() => expect(otlp.appends()).toBe(2));
  stream.close(constants.NGHTTP2_CANCEL);
  // Answered in the order of the frames: the source has seen the end of the stream by then.
  await new Promise((resolve) => session.ping(resolve));
  session.close();
  await makeRoom();
  await otlp.exportByGrpc(traceRequest(names));
  otlp.expectSpans(...names);
});

it("rejects gRPC in one block of headers that ends the stream, which senders need to retry", async (context) => {
  const { otlp } = await startFull(context, 1);
  const { session, stream } = sendRaw(otlp, ["a".repeat(1_000)]);
  const [headers, flags] = await new Promise<[Record<string, unknown>, number]>((resolve) =>
    stream.once("response", (...response) => resolve([response[0], response[1]])),
  );
  const endsStream = 1;
  expect([headers["grpc-status"], flags & endsStream]).toEqual(["14", endsStream]);
  expect(headers["grpc-status-details-bin"]).toBeDefined();
  session.close();
});
