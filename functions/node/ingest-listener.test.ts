import { once } from "node:events";
import { connect as connectHttp2 } from "node:http2";
import { request as requestHttps } from "node:https";
import { Worker } from "node:worker_threads";
import { gzipSync } from "node:zlib";
import { status } from "@grpc/grpc-js";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { connectForeign, type ForeignClient, forward, openForward, submit } from "../../tests/grpc-client.ts";
import { startTestIngest, type TestClient, type TestIngest } from "../../tests/ingest.ts";

let test: TestIngest;
const clients: ForeignClient[] = [];
beforeAll(async () => {
  test = await startTestIngest({ config: { frameBytesMax: 1_000_000, payloadBytesMax: 100_000 } });
});
afterEach(() => {
  for (const client of clients.splice(0)) client.close();
});
afterAll(() => test.close());

const connect = (certificate?: TestClient, to: TestIngest = test): ForeignClient => {
  const client = connectForeign(to, certificate);
  clients.push(client);
  return client;
};

const host = "spiffe://fleet.test/host-1";
let queues = 0;
const newQueue = (): Buffer => Buffer.alloc(16, ++queues);

const frame = (queue_id: Buffer, from: number, to: number, host_id = host) => ({
  host_id,
  queue_id,
  previous_sequence: from - 1,
  envelopes: Array.from({ length: to - from + 1 }, (_, index) => ({
    sequence: from + index,
    kind: "log_line",
    source: "/var/log/app.log",
    attributes: { "file.path": "/var/log/app.log" },
    payload: Buffer.from(`line ${from + index}`),
  })),
});

const open = (queue_id: Buffer, host_id = host) => ({ open: { host_id, queue_id } });

/** In a thread of its own, so that what it costs is the server's. Tells how many streams it could open before it was cut off. */
const floodScript = `
  const { connect } = require("node:http2");
  const { parentPort, workerData } = require("node:worker_threads");
  const session = connect(workerData.url, workerData.tls);
  let streams = 0;
  session.on("error", () => undefined);
  session.once("close", () => parentPort.postMessage(streams));
  const burst = () => {
    for (let index = 0; index < 100 && !session.destroyed && streams < 10_000; index++, streams++) {
      const stream = session.request({ ":method": "POST", ":path": "/svc.ingest.v1.IngestService/Forward" });
      stream.on("error", () => undefined);
      stream.close(8);
    }
    if (!session.destroyed) setImmediate(burst);
  };
  session.once("connect", burst);
`;

/** What of a queue is stored, in order. */
const stored = async (queue: Buffer): Promise<string[]> => {
  const rows = await test.connection.sql<{ payload: string }[]>`
    select convert_from(payload, 'utf8') as payload from ingest_envelope where queue_id = ${queue} order by sequence`;
  return rows.map(({ payload }) => payload);
};

const lines = (count: number): string[] => Array.from({ length: count }, (_, index) => `line ${index + 1}`);

describe("ingest over gRPC, to a client that is not ours", () => {
  it("answers opened with the cursor, then an ack a frame, and stores what is sent twice once", async () => {
    const client = connect(await test.client({}));
    const queue = newQueue();
    const first = await forward(client, [
      open(queue),
      { frame: frame(queue, 1, 3) },
      { frame: frame(queue, 4, 5) },
      { frame: { ...frame(queue, 6, 5) } },
    ]);
    expect(first.error).toBeUndefined();
    expect(first.messages.map(({ opened, ack }) => opened?.cursor ?? ack?.acked_through)).toEqual(["0", "3", "5", "5"]);
    const second = await forward(client, [open(queue), { frame: frame(queue, 4, 6) }]);
    expect(second.messages.map(({ opened, ack }) => opened?.cursor ?? ack?.acked_through)).toEqual(["5", "6"]);
    expect((await submit(client, frame(queue, 6, 7))).messages[0]?.ack?.acked_through).toBe("7");
    expect(await stored(queue)).toEqual(lines(7));
    const [row] = await test.connection.sql`
      select host_id, kind, source, attributes, observed_at, received_at > now() - interval '1 minute' as recent
      from ingest_envelope where queue_id = ${queue} limit 1`;
    expect(row).toEqual({
      host_id: host,
      kind: "log_line",
      source: "/var/log/app.log",
      attributes: { "file.path": "/var/log/app.log" },
      observed_at: null,
      recent: true,
    });
  });

  it("acknowledges the frames before a missing one, then ends with sequence_gap and the cursor", async () => {
    const client = connect(await test.client({}));
    const queue = newQueue();
    const { messages, error } = await forward(client, [
      open(queue),
      { frame: frame(queue, 1, 2) },
      { frame: frame(queue, 4, 5) },
      { frame: frame(queue, 6, 6) },
    ]);
    expect(messages.at(-1)?.ack?.acked_through).toBe("2");
    expect(error).toEqual({ code: status.FAILED_PRECONDITION, reason: "sequence_gap", cursor: "2" });
    expect(await stored(queue)).toEqual(lines(2));
  });

  it("tells in the ack which envelopes it refuses, also when the frame is sent again", async () => {
    const client = connect(await test.client({}));
    const queue = newQueue();
    const sent = frame(queue, 1, 3);
    const [, second] = sent.envelopes;
    if (second) second.payload = Buffer.alloc(100_001);
    for (let round = 0; round < 2; round++) {
      const [answer] = (await submit(client, sent)).messages;
      expect(answer?.ack?.acked_through).toBe("3");
      expect(answer?.ack?.rejected).toMatchObject([{ sequence: "2", code: "payload_too_large" }]);
    }
    expect(await stored(queue)).toEqual(["line 1", "line 3"]);
    const counted = test.observed.filter(({ name }) => name === "committed").slice(-1);
    expect(counted).toMatchObject([{ facts: { envelopes: 2, rejected: ["payload_too_large"] } }]);
  });

  it("G6: refuses another host's id, on Open, on a frame and on Submit, and stores nothing of the frame", async () => {
    const client = connect(await test.client({}));
    const queue = newQueue();
    const denied = { code: status.PERMISSION_DENIED, reason: "host_identity_mismatch" };
    const other = "spiffe://fleet.test/host-2";
    expect((await forward(client, [open(queue, other)])).error).toMatchObject(denied);
    expect((await forward(client, [open(queue), { frame: frame(queue, 1, 2, other) }])).error).toMatchObject(denied);
    for (const claim of [other, host.toUpperCase(), `${host}.`, ""])
      expect((await submit(client, frame(queue, 1, 2, claim))).error).toMatchObject(denied);
    const long = await submit(client, frame(queue, 1, 2, "x".repeat(300)));
    expect(long.error).toMatchObject({ code: status.INVALID_ARGUMENT, reason: "host_id_too_long" });
    expect(await stored(queue)).toEqual([]);
  });

  it("G6: takes a DNS or a URI name, one of all types, and never a common name", async () => {
    const queue = newQueue();
    const dns = connect(await test.client({ names: [{ type: "dns", value: "Host-1.example.test" }] }));
    expect((await submit(dns, frame(queue, 1, 1, "Host-1.example.test"))).error).toBeUndefined();
    for (const options of [
      { names: [], subject: `CN=${host}` },
      { names: [{ type: "url", value: host } as const, { type: "url", value: `${host}0` } as const] },
      { names: [{ type: "url", value: host } as const, { type: "ip", value: "127.0.0.1" } as const] },
      { names: [{ type: "email", value: "host@fleet.test" } as const] },
    ]) {
      const client = connect(await test.client(options));
      const refused = { code: status.UNAUTHENTICATED, reason: "certificate_identity_invalid" };
      expect((await submit(client, frame(queue, 1, 1))).error).toMatchObject(refused);
      expect((await forward(client, [open(queue)])).error).toMatchObject(refused);
    }
  });

  it("lets nobody in without a certificate, with one of another CA, or with one that has expired", async () => {
    const queue = newQueue();
    const other = await startTestIngest({ database: test.database });
    const stranger = await other.client({});
    await other.close();
    const expired = await test.client({ notAfter: new Date(Date.now() - 60_000) });
    for (const certificate of [undefined, stranger, expired]) {
      const { error } = await submit(connect(certificate), frame(queue, 1, 1));
      expect(error?.code).toBe(status.UNAVAILABLE);
    }
    expect(await stored(queue)).toEqual([]);
  });

  it("G3: ends a stream that is out of order or malformed with frame_invalid, and serves the next", async () => {
    const client = connect(await test.client({}));
    const queue = newQueue();
    const invalid = { code: status.INVALID_ARGUMENT, reason: "frame_invalid" };
    expect((await forward(client, [{ frame: frame(queue, 1, 1) }])).error).toMatchObject(invalid);
    expect((await forward(client, [open(queue), open(queue)])).error).toMatchObject(invalid);
    expect((await forward(client, [{}])).error).toMatchObject(invalid);
    expect((await forward(client, [open(Buffer.alloc(15))])).error).toMatchObject(invalid);
    const twice = {
      ...frame(queue, 1, 1),
      envelopes: [...frame(queue, 1, 1).envelopes, ...frame(queue, 1, 1).envelopes],
    };
    expect((await submit(client, twice)).error).toMatchObject(invalid);
    expect((await forward(client, [])).error).toBeUndefined();
    expect((await submit(client, frame(queue, 1, 1))).error).toBeUndefined();
  });

  it("refuses a frame over the limit with frame_too_large, on a stream and alone, and acknowledges what came before", async () => {
    const client = connect(await test.client({}));
    const queue = newQueue();
    const large = frame(queue, 2, 2);
    const [only] = large.envelopes;
    if (only) only.payload = Buffer.alloc(1_000_100);
    const tooLarge = { code: status.RESOURCE_EXHAUSTED, reason: "frame_too_large" };
    const { messages, error } = await forward(client, [open(queue), { frame: frame(queue, 1, 1) }, { frame: large }]);
    expect(error).toMatchObject(tooLarge);
    expect(messages.at(-1)?.ack?.acked_through).toBe("1");
    expect((await submit(client, large)).error).toMatchObject(tooLarge);
  });

  it("G8: gives an identity 8 streams, refuses the 9th, and takes another when one has ended", async () => {
    const certificate = await test.client({ uri: "spiffe://fleet.test/greedy" });
    const queue = newQueue();
    const first = open(queue, "spiffe://fleet.test/greedy");
    const streams = Array.from({ length: 8 }, () => openForward(connect(certificate)));
    for (const { call } of streams) {
      call.write(first);
      await once(call, "data");
    }
    const ninth = await forward(connect(certificate), [first]);
    expect(ninth.error).toMatchObject({ code: status.RESOURCE_EXHAUSTED, reason: "too_many_streams" });
    expect((await forward(connect(await test.client({})), [open(queue)])).error).toBeUndefined();
    streams[0]?.call.end();
    await streams[0]?.ended;
    expect((await forward(connect(certificate), [first])).error).toBeUndefined();
    for (const { call } of streams.slice(1)) call.cancel();
    await expect.poll(() => test.ingest.gauges().openStreams).toBe(0);
  });
});

describe("ingest over raw HTTP/2", () => {
  const session = async (certificate: TestClient) => {
    const client = connectHttp2(`https://localhost:${test.port}`, { ca: test.caPem, ...certificate });
    client.on("error", () => undefined);
    await once(client, "connect");
    return client;
  };
  /** Posts bytes to a method; gives status, trailers or body, whichever carry the error. */
  const post = async (certificate: TestClient, headers: Record<string, string>, body: Uint8Array) => {
    const client = await session(certificate);
    const stream = client.request({ ":method": "POST", te: "trailers", ...headers });
    const seen: Record<string, unknown> = {};
    stream.on("response", (answer) => Object.assign(seen, answer));
    stream.on("trailers", (trailers) => Object.assign(seen, trailers));
    stream.on("error", () => undefined);
    const chunks: Buffer[] = [];
    stream.on("data", (chunk: Buffer) => chunks.push(chunk));
    stream.end(body);
    await once(stream, "close");
    client.destroy();
    return { ...seen, body: Buffer.concat(chunks).toString("latin1") } as Record<string, unknown> & { body: string };
  };
  const method = (name: string) => ({ ":path": `/svc.ingest.v1.IngestService/${name}` });
  const grpc = { "content-type": "application/grpc" };
  const details = (answer: Record<string, unknown>) =>
    Buffer.from(String(answer["grpc-status-details-bin"]), "base64").toString("latin1");
  const enveloped = (bytes: Uint8Array, flags = 0, length = bytes.length): Buffer => {
    const prefix = Buffer.alloc(5, flags);
    prefix.writeUInt32BE(length, 1);
    return Buffer.concat([prefix, bytes]);
  };

  it("G1: a gzip bomb and a length of 4 GiB end in RESOURCE_EXHAUSTED, and memory grows by less than 64 MB", async () => {
    const certificate = await test.client({});
    const bomb = gzipSync(Buffer.alloc(200_000_000), { level: 1 });
    const before = process.memoryUsage().rss;
    const gzip = { "grpc-encoding": "gzip" };
    for (const name of ["Forward", "Submit"]) {
      const bombed = await post(certificate, { ...method(name), ...grpc, ...gzip }, enveloped(bomb, 1));
      expect(bombed).toMatchObject({ "grpc-status": "8" });
      expect(details(bombed)).toContain("frame_too_large");
      const promised = await post(
        certificate,
        { ...method(name), ...grpc },
        enveloped(Buffer.alloc(9), 0, 0xffff_ffff),
      );
      expect(promised).toMatchObject({ "grpc-status": "8" });
      expect(details(promised)).toContain("frame_too_large");
    }
    expect(process.memoryUsage().rss - before).toBeLessThan(64_000_000);
  }, 30_000);

  it("G3: bytes that are no protobuf, an unknown encoding or media type are refused, and core goes on", async () => {
    const certificate = await test.client({});
    const junk = Buffer.from("ffffffffffffffffffff", "hex");
    for (const name of ["Forward", "Submit"])
      expect(await post(certificate, { ...method(name), ...grpc }, enveloped(junk))).toMatchObject({
        // On Submit Connect parses, and answers INTERNAL, before it asks us.
        "grpc-status": name === "Forward" ? "3" : "13",
      });
    const brotli = { "grpc-encoding": "br" };
    expect(await post(certificate, { ...method("Submit"), ...grpc, ...brotli }, enveloped(junk, 1))).toMatchObject({
      "grpc-status": "12",
    });
    expect(await post(certificate, { ...method("Submit"), "content-type": "text/html" }, junk)).toMatchObject({
      ":status": 415,
    });
    expect((await submit(connect(certificate), frame(newQueue(), 1, 1))).error).toBeUndefined();
  });

  it("speaks Connect and gRPC-Web too, with the reason in each", async () => {
    const certificate = await test.client({});
    const wrong = JSON.stringify({ frame: { hostId: "another" } });
    const connectJson = { ...method("Submit"), "content-type": "application/json" };
    const connectAnswer = await post(certificate, connectJson, Buffer.from(wrong));
    expect(connectAnswer).toMatchObject({ ":status": 403 });
    expect(JSON.parse(connectAnswer.body)).toMatchObject({
      code: "permission_denied",
      details: [{ type: "google.rpc.ErrorInfo" }],
    });
    const web = { ...method("Submit"), "content-type": "application/grpc-web+json" };
    const webAnswer = await post(certificate, web, enveloped(Buffer.from(wrong)));
    expect(webAnswer.body + JSON.stringify(webAnswer)).toMatch(/grpc-status"?:\s*"?7/);
    const queueId = newQueue();
    const good = {
      frame: { hostId: host, queueId: queueId.toString("base64"), envelopes: [{ sequence: 1, kind: "log_line" }] },
    };
    const taken = await post(certificate, connectJson, Buffer.from(JSON.stringify(good)));
    expect(JSON.parse(taken.body)).toMatchObject({ ack: { ackedThrough: "1" } });
    const large = await post(certificate, connectJson, Buffer.alloc(1_000_100, 0x20));
    expect(large).toMatchObject({ ":status": 429 });
    expect(JSON.parse(large.body).details).toHaveLength(1);
  });

  it("P6: serves management paths with the TLS certificate over HTTP/2 and HTTP/1.1", async () => {
    const certificate = await test.client({});
    const expected = { path: "/v1/collector/heartbeat", listener: "ingest", certificate: certificate.der.toHex() };
    const http2 = await post(certificate, { ":path": "/v1/collector/heartbeat" }, Buffer.from("{}"));
    expect(JSON.parse(http2.body)).toEqual(expected);
    const request = requestHttps({
      host: "localhost",
      port: test.port,
      path: "/v1/collector/heartbeat",
      method: "POST",
      ca: test.caPem,
      ...certificate,
      agent: false,
    });
    request.end("{}");
    const [response] = await once(request, "response");
    const chunks: Buffer[] = [];
    for await (const chunk of response) chunks.push(chunk as Buffer);
    expect(JSON.parse(Buffer.concat(chunks).toString())).toEqual(expected);
  });

  it("G2: a client that opens and resets streams as fast as it can is cut off, and others are served meanwhile", async () => {
    const other = connect(await test.client({ uri: "spiffe://fleet.test/patient" }));
    const flood = new Worker(floodScript, {
      eval: true,
      workerData: { url: `https://localhost:${test.port}`, tls: { ca: test.caPem, ...(await test.client({})) } },
    });
    const closed = once(flood, "message");
    let slowest = 0;
    for (let sequence = 1; sequence <= 20; sequence++) {
      const startedAt = performance.now();
      const { error } = await submit(other, frame(newQueue(), 1, 1, "spiffe://fleet.test/patient"));
      expect(error).toBeUndefined();
      slowest = Math.max(slowest, performance.now() - startedAt);
    }
    const [streams] = await closed;
    expect(streams).toBeLessThan(10_000);
    expect(slowest).toBeLessThan(1_000);
    await expect.poll(() => test.ingest.gauges().openStreams).toBe(0);
    await flood.terminate();
  });

  it("stops a sender that goes on after its refusal", async () => {
    const client = await session(await test.client({}));
    const stream = client.request({ ":method": "POST", ...method("Forward"), ...grpc }, { endStream: false });
    stream.on("error", () => undefined);
    stream.resume();
    let ended: unknown;
    stream.on("trailers", (trailers) => (ended = trailers["grpc-status"]));
    stream.write(enveloped(Buffer.from("ffff", "hex")));
    await once(stream, "close");
    expect([stream.rstCode, ended]).toEqual([0, "3"]);
    client.destroy();
    await expect.poll(() => test.ingest.gauges()).toEqual({ inFlightBytes: 0, openStreams: 0 });
  });
});
