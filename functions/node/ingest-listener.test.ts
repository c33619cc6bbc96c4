import { once } from "node:events";
import { status } from "@grpc/grpc-js";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { frame, newQueue, open, testHost } from "../../tests/frames.ts";
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
      host_id: testHost,
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
    for (const claim of [other, testHost.toUpperCase(), `${testHost}.`, ""])
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
      { names: [], subject: `CN=${testHost}` },
      { names: [{ type: "url", value: testHost } as const, { type: "url", value: `${testHost}0` } as const] },
      { names: [{ type: "url", value: testHost } as const, { type: "ip", value: "127.0.0.1" } as const] },
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
