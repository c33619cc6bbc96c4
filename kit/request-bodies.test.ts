import { expect, it } from "vitest";
import { createTestClock } from "#tests/fakes/clock.ts";
import { createRequestBodies } from "./request-bodies.ts";

const limits = { bytesMax: 1_000, addressBytesMax: 400, timeoutMs: 30_000 };

/** A body whose chunks the test sends. */
const createUpload = (headers: Record<string, string> = {}) => {
  let controller: ReadableStreamDefaultController<Uint8Array> | undefined;
  const body = new ReadableStream<Uint8Array<ArrayBuffer>>({
    start(given) {
      controller = given;
    },
  });
  return {
    request: { body, headers: new Headers(headers) },
    send: (bytes: number) => controller?.enqueue(new Uint8Array(bytes).fill(7)),
    end: () => controller?.close(),
    disconnect: () => controller?.error(new Error("disconnected")),
  };
};

const setUp = () => {
  const clock = createTestClock();
  const bodies = createRequestBodies(clock, limits);
  const begin = (remoteAddress: string, bytesMax = 300) => {
    const upload = createUpload();
    const result = bodies.read(upload.request, { remoteAddress, bytesMax }).then(
      (read) => (typeof read === "string" ? read : read.length),
      (error: Error) => error.message,
    );
    return { ...upload, result };
  };
  return { clock, bodies, begin };
};
const settle = () => new Promise((done) => setImmediate(done));

it("are returned whole, whatever their chunks", async () => {
  const { begin } = setUp();
  const upload = begin("192.0.2.1");
  for (const bytes of [1, 150, 0, 149]) upload.send(bytes);
  upload.end();
  expect(await upload.result).toBe(300);
});

it("N2: end at their own limit, or unread with a longer Content-Length", async () => {
  const { begin, bodies } = setUp();
  const upload = begin("192.0.2.1");
  upload.send(301);
  expect(await upload.result).toBe("payload_too_large");
  const { request } = createUpload({ "content-length": "301" });
  expect(await bodies.read(request, { remoteAddress: "192.0.2.1", bytesMax: 300 })).toBe(
    "payload_too_large",
  );
  expect(request.body.locked).toBe(false);
});

it("N2: end when they stall", async () => {
  const { begin, clock } = setUp();
  const upload = begin("192.0.2.1");
  upload.send(10);
  await clock.advance(29_999);
  upload.send(10);
  await clock.advance(1);
  expect(await upload.result).toBe("body_timeout");
});

it("N2: end the oldest of their address over its limit, and no other address's", async () => {
  const { begin } = setUp();
  const other = begin("192.0.2.2");
  other.send(200);
  const silent = begin("2001:db8::1");
  const stalled = begin("2001:db8::2");
  stalled.send(250);
  const second = begin("2001:db8::3");
  second.send(250);
  expect(await stalled.result).toBe("overloaded");
  for (const upload of [other, silent, second]) upload.end();
  expect(await Promise.all([other.result, silent.result, second.result])).toEqual([200, 0, 250]);
});

it("N2: end the oldest of all over the limit of all", async () => {
  const { begin } = setUp();
  const uploads = ["192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4"].map((address) =>
    begin(address),
  );
  for (const upload of uploads) {
    upload.send(300);
    await settle();
  }
  expect(await uploads[0]?.result).toBe("overloaded");
  for (const upload of uploads.slice(1)) upload.end();
  expect(await Promise.all(uploads.slice(1).map(({ result }) => result))).toEqual([300, 300, 300]);
});

it("release their bytes when they are complete, refused or their client disconnects", async () => {
  const { begin } = setUp();
  for (let round = 0; round < 20; round++) {
    const complete = begin("192.0.2.1");
    const gone = begin("192.0.2.1");
    const large = begin("192.0.2.1");
    complete.send(100);
    complete.end();
    gone.send(100);
    await settle();
    gone.disconnect();
    large.send(301);
    expect(await Promise.all([complete.result, gone.result, large.result])).toEqual([
      100,
      "disconnected",
      "payload_too_large",
    ]);
  }
});
