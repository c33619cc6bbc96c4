import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { Code } from "@connectrpc/connect";
import { afterAll, beforeAll, expect, it, onTestFinished } from "vitest";
import { createCollectorTracer } from "#collector/commands/create-collector-tracer.ts";
import { createOtlpSource, type OtlpSource } from "#collector/sources/otlp/otlp-source.ts";
import { createTracer } from "#kit/tracing/create-tracer.ts";
import type { Tracer } from "#kit/tracing/tracer.ts";
import { createTestCollectorEnv } from "../fakes/collector-env.ts";
import { peerError } from "../fakes/ingest-peer.ts";
import { createTestLog } from "../fakes/log.ts";
import { newFolder } from "../support/new-folder.ts";
import { runCollector } from "./support/collector-command.ts";
import { exportByGrpc, traceRequest } from "./support/otlp.ts";
import { createRunningCollector } from "./support/running-collector.ts";
import { type SpanReceiver, startSpanReceiver } from "./support/span-receiver.ts";

/* What a traced collector records, as a receiver of OTLP sees it (docs/traces.md). */

let receiver: SpanReceiver;
beforeAll(async () => {
  receiver = await startSpanReceiver();
});
afterAll(() => receiver.close());

const tracerOf = (name: string, samplePercent = 100) =>
  createTracer(
    { url: receiver.url, headers: null, samplePercent },
    { name, version: "1.2.3", hostname: "host.test" },
  );

/** Starts a collector with an OTLP source; `send` sends it one span over HTTP, `sendByGrpc` over gRPC. */
const startTraced = async (tracer: Tracer) => {
  const collector = await createRunningCollector({ tracer });
  onTestFinished(() => collector.stop());
  let source: OtlpSource | undefined;
  await collector.start((_config, given) => {
    source = createOtlpSource(
      { http: { listen: "127.0.0.1:0" }, grpc: { listen: "127.0.0.1:0" } },
      given,
    );
    return source;
  });
  await expect.poll(() => source?.addresses.http).toBeDefined();
  const url = `http://${source?.addresses.http}/v1/traces`;
  const send = async (headers: Record<string, string> = {}) => {
    const { length } = collector.peer.stored;
    const body = traceRequest(["secret"]);
    const response = await fetch(url, {
      method: "POST",
      headers: { "content-type": "application/x-protobuf", ...headers },
      body,
    });
    expect(response.status).toBe(200);
    await expect.poll(() => collector.peer.stored.length).toBe(length + 1);
  };
  const sendByGrpc = async (headers: Record<string, string> = {}) => {
    const { length } = collector.peer.stored;
    await exportByGrpc(
      source?.addresses.grpc ?? "",
      traceRequest(["secret"]),
      {},
      undefined,
      headers,
    );
    await expect.poll(() => collector.peer.stored.length).toBe(length + 1);
  };
  return { collector, send, sendByGrpc };
};

it("a collector records what it receives, its frames and its requests to core, which continue the trace", async () => {
  const tracer = await tracerOf("collector");
  const { collector, send } = await startTraced(tracer);
  await send();
  // The second one follows the answer to the first.
  await expect.poll(() => collector.heartbeats().length).toBeGreaterThan(1);
  await collector.stop();
  await tracer.close();
  const spans = receiver.spans.filter(({ service }) => service === "collector");
  const spanOf = (name: string) => spans.find((span) => span.name === name);
  const received = spanOf("receive /v1/traces");
  expect(received).toMatchObject({
    parent: "",
    facts: { "svc.source": "otlp", "svc.outcome": "stored" },
  });
  expect(spanOf("append")).toMatchObject({ trace: received?.trace, parent: received?.id });
  expect(spanOf("forward frame")).toMatchObject({
    parent: "",
    isFailed: false,
    facts: { "svc.records": 1n },
  });
  const heartbeat = spanOf("POST /v1/collector/heartbeat");
  expect(heartbeat?.facts).toMatchObject({ "http.response.status_code": 200n });
  expect(collector.heartbeats()[0]?.traceparent).toBe(`00-${heartbeat?.trace}-${heartbeat?.id}-01`);
  expect(
    JSON.stringify(
      spans.map(({ facts }) => facts),
      (_, value) => String(value),
    ),
  ).not.toContain("secret");
});

it("a collector records a frame that core has not acknowledged as failed, and the one that it sends instead", async () => {
  const tracer = await tracerOf("refused collector");
  const { collector, sendByGrpc } = await startTraced(tracer);
  let refusals = 0;
  collector.peer.behaviour.refuse = () =>
    refusals++ === 0 ? peerError(Code.Unavailable, "overloaded") : undefined;
  await sendByGrpc();
  await collector.stop();
  await tracer.close();
  const frames = receiver.spans.filter(
    ({ service, name }) => service === "refused collector" && name === "forward frame",
  );
  expect(frames.map(({ isFailed }) => isFailed)).toEqual([true, false]);
});

it("a collector that samples nothing sends core no traceparent", async () => {
  const { collector } = await startTraced(await tracerOf("unsampled collector", 0));
  await expect.poll(() => collector.heartbeats().length).toBeGreaterThan(0);
  expect(collector.heartbeats()[0]?.traceparent).toBeUndefined();
});

it("a sender cannot make the collector record, only keep it from that", async () => {
  const [all, none] = await Promise.all([tracerOf("records all"), tracerOf("records none", 0)]);
  const ofAll = await startTraced(all);
  const ofNone = await startTraced(none);
  const notSampled = { traceparent: `00-${"ab".repeat(16)}-${"cd".repeat(8)}-00` };
  const sampled = { traceparent: `00-${"ab".repeat(16)}-${"cd".repeat(8)}-01` };
  for (const send of [ofAll.send, ofAll.sendByGrpc]) await send(notSampled);
  for (const send of [ofNone.send, ofNone.sendByGrpc]) await send(sampled);
  await Promise.all([all.close(), none.close()]);
  const services = receiver.spans
    .filter(({ name }) => name.startsWith("receive"))
    .map(({ service }) => service);
  expect(services).not.toContain("records all");
  expect(services).not.toContain("records none");
});

it("a collector that receives its own export records neither that nor another frame", async () => {
  const tracer = await tracerOf("own receiver");
  const { send } = await startTraced(tracer);
  const frames = () =>
    receiver.spans.filter(
      ({ service, name }) => service === "own receiver" && name === "forward frame",
    );
  await send();
  // A full batch is sent at once: its headers are those of each export.
  for (let count = 0; count < 512; count += 1)
    tracer.begin({ name: "fill", kind: "internal" })?.end();
  await expect.poll(() => frames().length).toBe(1);
  await send({ traceparent: String(receiver.headers.at(-1)?.traceparent) });
  await send();
  await tracer.close();
  expect(frames()).toHaveLength(1);
  const received = receiver.spans.filter(
    ({ service, name }) => service === "own receiver" && name.startsWith("receive"),
  );
  expect(received).toHaveLength(2);
});

it.each([
  [{ SVC_TRACES_URL: "localhost" }, "SVC_TRACES_URL must be an http or https URL"],
  [
    { SVC_TRACES_HEADERS: "key=secret" },
    "SVC_TRACES_URL is required when SVC_TRACES_HEADERS is set",
  ],
])("run rejects %j", async (variables, fault) => {
  const { host, stop } = await createRunningCollector();
  onTestFinished(stop);
  const env = createTestCollectorEnv({ variables });
  const { code, err } = await runCollector(["run", "--config", host.config], env);
  expect([code, err]).toEqual([78, expect.stringContaining(fault)]);
  expect(err).not.toContain("secret");
});

it.each([
  ["api-key=new", "new", 0],
  ["nonsense", "old", 1],
])(
  "a collector reads SVC_TRACES_HEADERS_FILE for each batch: %s",
  async (contents, sent, warnings) => {
    const path = join(newFolder(), "headers");
    writeFileSync(path, "api-key=old");
    const log = createTestLog();
    const env = {
      hostname: "host.test",
      variables: {
        SVC_TRACES_URL: receiver.url,
        SVC_TRACES_HEADERS_FILE: path,
        SVC_TRACES_SAMPLE_PERCENT: "100",
      },
    };
    const tracer = await createCollectorTracer(env, log);
    receiver.headers.splice(0);
    writeFileSync(path, contents);
    // Two full batches, each of which is sent at once.
    for (let batch = 1; batch <= 2; batch += 1) {
      for (let count = 0; count < 512; count += 1)
        tracer.begin({ name: "work", kind: "internal" })?.end();
      await expect.poll(() => receiver.headers.length).toBe(batch);
    }
    await tracer.close();
    expect(receiver.headers.map((headers) => headers["api-key"])).toEqual([sent, sent]);
    expect(log.lines).toHaveLength(warnings);
    expect(log.text()).not.toContain("nonsense");
  },
);
