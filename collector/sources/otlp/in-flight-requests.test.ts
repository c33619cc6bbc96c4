import { once } from "node:events";
import { request } from "node:http";
import { connect } from "node:http2";
import { Code } from "@connectrpc/connect";
import { afterAll, expect, it } from "vitest";
import { grpcMessagePrefix } from "#proto/grpc-framing.ts";
import { startTestOtlp, traceRequest } from "#tests/collector/support/otlp.ts";
import { closeAccounts, refusalsOf } from "#tests/collector/support/queue-accounts.ts";
import { createInFlightRequests } from "./in-flight-requests.ts";

const otlp = await startTestOtlp({ limits: { inFlightBytesMax: 250_000 } });
afterAll(() => otlp.close());
const half = Buffer.alloc(100_000);
/** Announces as much: its memory is taken with the first byte. */
const begun = Buffer.concat([grpcMessagePrefix(half.length, false), Buffer.of(0)]);

it("drops the oldest requests until there is room, and none that has ended", () => {
  const dropped: string[] = [];
  const inFlight = createInFlightRequests(10);
  const [a, b, c, d] = ["a", "b", "c", "d"].map((name) => inFlight.begin(() => dropped.push(name)));
  a?.add(4);
  b?.add(4);
  b?.end();
  c?.add(5);
  expect(dropped).toEqual([]);
  d?.add(2);
  a?.add(100);
  d?.add(3);
  expect(dropped).toEqual(["a"]);
  c?.add(1);
  expect(dropped).toEqual(["a", "c"]);
});

it("G1: bounds the memory of unfinished requests of both transports, and serves others", async () => {
  const session = connect(`http://${otlp.source.addresses.grpc}`);
  const path = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
  const begin = () => {
    const stream = session.request({
      ":method": "POST",
      ":path": path,
      "content-type": "application/grpc",
    });
    stream.write(begun);
    return once(stream, "response");
  };
  const unavailable = expect.objectContaining({ "grpc-status": `${Code.Unavailable}` });
  const first = begin();
  const second = begin();
  void begin();
  expect(await first).toContainEqual(unavailable);
  const headers = { "content-type": "application/x-protobuf" };
  const slow = request(`http://${otlp.source.addresses.http}/v1/traces`, {
    method: "POST",
    headers,
  });
  const cut = once(slow, "error");
  slow.write(half);
  expect(await second).toContainEqual(unavailable);
  for (let count = 0; count < 3; count++) void begin();
  await cut;
  await otlp.exportByGrpc(traceRequest(["by gRPC"]));
  expect((await otlp.post("/v1/traces", traceRequest(["by HTTP"]))).status).toBe(200);
  otlp.expectSpans("by gRPC", "by HTTP");
  session.destroy();
  // Three of those that gRPC began first, the one by HTTP, and one of those after it.
  await expect.poll(() => otlp.source.counters?.().unavailable).toBe(5);
  expect(refusalsOf(closeAccounts(otlp.queue))).toEqual([[4, "otel_span", "otlp", 5]]);
});
