import { once } from "node:events";
import { request } from "node:http";
import { connect } from "node:http2";
import { fromBinary } from "@bufbuild/protobuf";
import { SpanKind, SpanStatusCode } from "@opentelemetry/api";
import { OTLPTraceExporter as GrpcExporter } from "@opentelemetry/exporter-trace-otlp-grpc";
import { OTLPTraceExporter as HttpExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { resourceFromAttributes } from "@opentelemetry/resources";
import { BatchSpanProcessor, type SpanExporter, TracerProvider } from "@opentelemetry/sdk-trace";
import { afterEach, describe, expect, it, onTestFinished } from "vitest";
import { systemClock } from "#kit/clock.ts";
import {
  ExportTraceServiceRequestSchema,
  ExportTraceServiceResponseSchema,
} from "#proto/gen/opentelemetry/proto/collector/trace/v1/trace_service_pb.js";
import { findPorts } from "#scripts/ports.ts";
import {
  exportByGrpc,
  spansOf,
  startTestOtlp,
  type TestOtlp,
  traceRequest,
} from "#tests/collector/support/otlp.ts";
import { createTestClock } from "#tests/fakes/clock.ts";
import { createTestLog } from "#tests/fakes/log.ts";
import { eventually } from "#tests/support/eventually.ts";
import { createOtlpSource } from "./otlp-source.ts";

let otlp: TestOtlp;

const start = async (...options: Parameters<typeof startTestOtlp>) => {
  otlp = await startTestOtlp(...options);
};

afterEach(() => otlp.close());

const sendSpans = async (exporter: SpanExporter, count: number) => {
  const provider = new TracerProvider({
    resource: resourceFromAttributes({ "service.name": "shop" }),
    spanProcessors: [
      new BatchSpanProcessor({ exporter, maxExportBatchSize: 100, maxQueueSize: 10_000 }),
    ],
  });
  const tracer = provider.getTracer("tests", "1.2.3");
  for (let index = 0; index < count; index++) {
    const span = tracer.startSpan(`span ${index}`, {
      kind: SpanKind.CLIENT,
      attributes: { index, ratio: 0.5, ok: true },
    });
    span.addEvent("event", { list: ["a", "b"] });
    span.setStatus({ code: SpanStatusCode.ERROR, message: "no" });
    span.end();
  }
  await provider.forceFlush();
  await provider.shutdown();
};

it.each([
  ["grpc", () => new GrpcExporter({ url: `http://${otlp.source.addresses.grpc}` })],
  [
    "http/protobuf with gzip",
    () =>
      new HttpExporter({
        url: `http://${otlp.source.addresses.http}/v1/traces`,
        compression: "gzip" as never,
      }),
  ],
])(
  "exporters of the OpenTelemetry SDK over %s: every span is in the queue once the exporter has succeeded",
  async (_, exporter) => {
    await start();
    await sendSpans(exporter(), 250);
    expect(otlp.envelopes().map(({ kind, source: name }) => [kind, name])).toEqual(
      Array(3).fill(["otel_span", "otlp"]),
    );
    const spans = otlp.envelopes().flatMap(({ payload }) => spansOf(payload));
    expect(new Set(spans.map(({ name }) => name)).size).toBe(250);
    // Batches are sent in parallel, so any of them may be first.
    const first = spans.find(({ name }) => name === "span 0");
    expect(first).toMatchObject({
      name: "span 0",
      kind: 3,
      status: { code: 2, message: "no" },
      attributes: [
        { key: "index", value: { value: { case: "intValue", value: 0n } } },
        { key: "ratio", value: { value: { case: "doubleValue", value: 0.5 } } },
        { key: "ok", value: { value: { case: "boolValue", value: true } } },
      ],
      events: [{ name: "event", attributes: [{ key: "list" }] }],
    });
    expect([first?.traceId.length, first?.spanId.length]).toEqual([16, 8]);
  },
);

it("splits a large request into envelopes with every span once, with its resource and scope", async () => {
  await start({ limits: { envelopeBytesMax: 2_000 } });
  const names = Array.from(
    { length: 200 },
    (_, index) => `${index}-${"x".repeat((index * 37) % 300)}`,
  );
  names[77] = "y".repeat(5_000);
  await otlp.exportByGrpc(traceRequest(names));
  const parts = otlp.envelopes();
  otlp.expectSpans(...names);
  for (const { payload } of parts) {
    expect(payload.length <= 2_000 || spansOf(payload).length === 1).toBe(true);
    const [resource] = fromBinary(ExportTraceServiceRequestSchema, payload).resourceSpans;
    expect([
      resource?.resource?.attributes[0]?.key,
      resource?.scopeSpans[0]?.scope?.name,
      resource?.schemaUrl,
    ]).toEqual(["service.name", "scope", "https://schema.test"]);
  }
  expect(parts.length).toBeLessThan(40);
});

describe("an item that is too large to be forwarded", () => {
  const small = traceRequest(["before", "after"]);
  const large = traceRequest(["before", "x".repeat(5_000), "after", "y".repeat(5_000)]);
  const onlyLarge = traceRequest(["x".repeat(5_000)]);
  const limits = { envelopeBytesMax: 1_000, itemBytesMax: 4_000 };

  it("is rejected before OK over HTTP: the others are stored, and partial_success counts it", async () => {
    await start({ limits });
    const response = await otlp.post("/v1/traces", large);
    const { partialSuccess } = fromBinary(ExportTraceServiceResponseSchema, await response.bytes());
    expect([response.status, partialSuccess?.rejectedSpans]).toEqual([200, 2n]);
    expect(partialSuccess?.errorMessage).toContain("larger than 4000 bytes");
    otlp.expectSpans("before", "after");
    expect((await otlp.post("/v1/traces", onlyLarge)).status).toBe(413);
    expect(otlp.source.counters?.()).toMatchObject({ partial: 1, too_large: 1, rejected_items: 3 });
  });

  it("is rejected before OK over gRPC, with a code that senders do not retry", async () => {
    await start({ limits });
    const { partialSuccess } = fromBinary(
      ExportTraceServiceResponseSchema,
      await otlp.exportByGrpc(large),
    );
    expect(partialSuccess?.rejectedSpans).toBe(2n);
    await expect(otlp.exportByGrpc(onlyLarge)).rejects.toMatchObject({ code: 3 });
    expect(await otlp.exportByGrpc(small)).toHaveLength(0);
    otlp.expectSpans("before", "after", "before", "after");
  });

  it("is by default one that does not fit core's default frame of 4 MiB", async () => {
    await start();
    const mebibytes = (count: number) => traceRequest(["x".repeat(count * 1024 * 1024)]);
    expect((await otlp.post("/v1/traces", mebibytes(4))).status).toBe(413);
    expect((await otlp.post("/v1/traces", mebibytes(3.9))).status).toBe(200);
  });
});

it("replaces invalid UTF-8 in strings by U+FFFD, warns the sender and counts it", async () => {
  await start();
  const payload = traceRequest(["before", "broken-?", "after"]);
  const broken = Uint8Array.from(payload);
  broken[Buffer.from(payload).indexOf("broken-?") + 7] = 0xe9; // Latin-1
  const overHttp = await otlp.post("/v1/traces", broken);
  for (const bytes of [await overHttp.bytes(), await otlp.exportByGrpc(broken)]) {
    const { partialSuccess } = fromBinary(ExportTraceServiceResponseSchema, bytes);
    expect(partialSuccess).toMatchObject({
      rejectedSpans: 0n,
      errorMessage: "replaced invalid UTF-8 in 1 strings",
    });
  }
  otlp.expectSpans(...[..."12"].flatMap(() => ["before", "broken-\ufffd", "after"]));
  expect(otlp.source.counters?.()).toMatchObject({ partial: 2, repaired_strings: 2 });
});

describe("a request that a web page could have sent", () => {
  /** Sends one request by hand, since `fetch` sets `Host` itself. Returns the status. */
  const byHttp = async (headers: Record<string, string>) => {
    const { hostname, port } = new URL(`http://${otlp.source.addresses.http}`);
    const type = { "content-type": "application/x-protobuf" };
    const sent = request({
      hostname,
      port,
      path: "/v1/traces",
      method: "POST",
      headers: { ...type, ...headers },
    });
    sent.end(traceRequest(["a"]));
    const [response] = await once(sent, "response");
    response.resume();
    return response.statusCode;
  };
  const byGrpc = async (headers: Record<string, string>) => {
    const session = connect(`http://${otlp.source.addresses.grpc}`);
    const path = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
    const grpc = {
      ":method": "POST",
      ":path": path,
      "content-type": "application/grpc",
      te: "trailers",
    };
    const stream = session.request({ ...grpc, ...headers });
    const fields: Record<string, unknown> = {};
    for (const event of ["response", "trailers"])
      stream.on(event, (found) => Object.assign(fields, found));
    const payload = traceRequest(["a"]);
    stream.end(Buffer.concat([Buffer.of(0, 0, 0, 0, payload.length), payload]));
    stream.resume();
    await once(stream, "close");
    session.destroy();
    return fields["grpc-status"];
  };

  it.each([
    ["a foreign name", { host: "evil.example:4318" }],
    ["a foreign name that begins like loopback", { host: "127.0.0.1.evil.example" }],
    ["another address", { host: "10.0.0.1:4318" }],
    ["an empty name", { host: ":4318" }],
    ["an origin", { origin: "http://localhost:4318" }],
    ["an opaque origin", { origin: "null" }],
  ])(
    "is rejected on a loopback listener with %s, and nothing of it is stored",
    async (_, headers) => {
      await start();
      expect(await byHttp(headers)).toBe(403);
      const { host, ...others } = headers as { host?: string; origin?: string };
      expect(
        await byGrpc({ ...others, ...(host === undefined ? {} : { ":authority": host }) }),
      ).toBe("7");
      if (host !== undefined) expect(await byGrpc({ ":authority": "localhost", host })).toBe("7");
      expect(otlp.envelopes()).toEqual([]);
      expect(otlp.source.counters?.()).toMatchObject({ forbidden: host === undefined ? 2 : 3 });
    },
  );

  it("is accepted with any name of loopback, and with those that the config allows", async () => {
    await start({ allowedHosts: ["Host.docker.internal"] });
    const names = [
      "localhost",
      "LOCALHOST:1",
      "127.0.0.1:4318",
      "127.9.9.9",
      "[::1]:4318",
      "localhost.",
    ];
    for (const name of [...names, "host.docker.internal:4318"]) {
      expect(await byHttp({ host: name })).toBe(200);
      expect(await byGrpc({ ":authority": name })).toBe("0");
    }
    expect(await byHttp({ host: "docker.internal" })).toBe(403);
  });

  it("is accepted with any name on a listener that is open to the network, and rejected with an origin", async () => {
    await start({ host: "0.0.0.0" });
    expect(await byHttp({ host: "collector.monitoring.svc:4318" })).toBe(200);
    expect(await byGrpc({ ":authority": "collector.monitoring.svc:4317" })).toBe("0");
    expect(await byHttp({ origin: "http://evil.example" })).toBe(403);
  });
});

it("rejects an address in use, and closes its other listener", async () => {
  await start();
  const [port] = await findPorts(1);
  const second = createOtlpSource(
    { grpc: { listen: `127.0.0.1:${port}` }, http: { listen: otlp.source.addresses.http ?? "" } },
    {
      append: otlp.queue.append,
      refused: () => undefined,
      clock: systemClock,
      log: createTestLog(),
    },
  );
  await expect(second.start()).rejects.toMatchObject({ code: "EADDRINUSE" });
  const [error] = await once(connect(`http://127.0.0.1:${port}`), "error");
  expect(error).toMatchObject({ code: "ECONNREFUSED" });
});

it("with retries, receives on its other listener while an address is in use, and reports it until it listens", async () => {
  await start();
  const [port] = await findPorts(1);
  const clock = createTestClock();
  const log = createTestLog();
  const { append } = otlp.queue;
  const second = createOtlpSource(
    { grpc: { listen: otlp.source.addresses.grpc ?? "" }, http: { listen: `127.0.0.1:${port}` } },
    { append, refused: () => undefined, clock, log },
  );
  onTestFinished(second.stop);
  await second.start({ retries: true });
  const post = () =>
    fetch(`http://${second.addresses.http}/v1/traces`, {
      method: "POST",
      headers: { "content-type": "application/x-protobuf" },
      body: traceRequest(["a"]),
    });
  expect((await post()).status).toBe(200);
  const condition = { code: "source_failed", reason: expect.stringMatching(/^otlp: .*EADDRINUSE/) };
  for (let attempt = 0; attempt < 3; attempt++) {
    await clock.advance(5_000);
    expect(second.condition?.()).toMatchObject(condition);
  }
  expect(log.lines.filter(({ level }) => level === "error")).toHaveLength(1);
  await otlp.source.stop();
  await eventually(async () => {
    await clock.advance(5_000);
    expect(second.addresses.grpc).toBe(otlp.source.addresses.grpc);
  });
  await exportByGrpc(second.addresses.grpc ?? "", traceRequest(["b"]));
  otlp.expectSpans("a", "b");
  await clock.advance(90_000);
  expect(second.condition?.()).toBeUndefined();
});

it.each([
  ["in use", () => otlp.source.addresses.http ?? ""],
  ["of another host", () => "192.0.2.1:4318"],
])("stops while an address is %s", async (_, address) => {
  await start();
  const { append } = otlp.queue;
  const second = createOtlpSource(
    { http: { listen: address() } },
    { append, refused: () => undefined, clock: systemClock, log: createTestLog() },
  );
  await second.start({ retries: true });
  expect(second.condition?.()).toMatchObject({ code: "source_failed" });
  await second.stop();
});

it("rejects a waiting request when it stops, so that its sender retries", async () => {
  await start({ queue: { maxDiskUsageBytes: 3_000 } });
  await otlp.exportByGrpc(traceRequest(["a".repeat(2000)]));
  const waiting = otlp.exportByGrpc(traceRequest(["b".repeat(2000)])).catch((error) => error.code);
  await eventually(() => expect(otlp.queue.stats().records).toBe(1));
  await systemClock.sleep(20);
  await otlp.source.stop();
  expect(await waiting).toBe(14);
});
