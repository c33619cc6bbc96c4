/*
 * The behaviour of foreign senders when the queue has no room. A request is rejected as a whole or stored as a whole, so that one that is resent
 * after a rejection is stored once; and success is never reported for a request that is not stored.
 */
import { connect, constants } from "node:http2";
import { expect, it, type TestContext } from "vitest";
import { eventually } from "#tests/support/eventually.ts";
import { startTestOtlp, type TestOtlp, traceRequest } from "#tests/support/otlp.ts";
import { patientSenders, sendBySdkOverGrpc } from "#tests/support/otlp-senders.ts";

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
    expect(otlp.spanNames()).toEqual(names);
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
  expect(otlp.spanNames()).toEqual(names);
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
  expect(otlp.spanNames()).toEqual(names);
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
