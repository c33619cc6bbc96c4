import { status } from "@grpc/grpc-js";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { frame, newQueue, open, testHost } from "#tests/support/frames.ts";
import { connectInTest, forwardAll, submit } from "#tests/support/grpc-client.ts";
import {
  everyIngestPath,
  startTestIngest,
  type TestClient,
  type TestIngest,
} from "#tests/support/ingest.ts";
import { findStored } from "#tests/support/stored-envelopes.ts";

let test: TestIngest;

const connect = (certificate?: TestClient, to: TestIngest = test) => connectInTest(to, certificate);

/** Returns the payloads stored of a queue, in order. */
const stored = async (queue: Buffer) => (await storedOf(queue)).map(({ text }) => text);
const storedOf = async (queue: Buffer) =>
  (await findStored(test.connection.sql)).filter((found) => found.queue === queue.toString("hex"));

const lines = (count: number) => Array.from({ length: count }, (_, index) => `line ${index + 1}`);

describe.each(everyIngestPath)("ingest over gRPC, by grpc-js, on the $path", ({ fastPath }) => {
  beforeAll(async () => {
    const config = { frameBytesMax: 1_000_000, payloadBytesMax: 100_000 };
    test = await startTestIngest({ config, needs: { fastPath } });
  });
  afterAll(() => test.close());

  it("answers with opened and the cursor, then an ack per frame, and stores a resent frame once", async () => {
    const client = connect(await test.client({}));
    const queue = newQueue();
    const first = await forwardAll(client, [
      open(queue),
      { frame: frame(queue, 1, 3) },
      { frame: frame(queue, 4, 5) },
      { frame: { ...frame(queue, 6, 5) } },
    ]);
    expect(first.error).toBeUndefined();
    expect(first.messages.map(({ opened, ack }) => opened?.cursor ?? ack?.acked_through)).toEqual([
      "0",
      "3",
      "5",
      "5",
    ]);
    const second = await forwardAll(client, [open(queue), { frame: frame(queue, 4, 6) }]);
    expect(second.messages.map(({ opened, ack }) => opened?.cursor ?? ack?.acked_through)).toEqual([
      "5",
      "6",
    ]);
    expect((await submit(client, frame(queue, 6, 7))).messages[0]?.ack?.acked_through).toBe("7");
    expect(await stored(queue)).toEqual(lines(7));
    const [row] = await storedOf(queue);
    expect(row).toMatchObject({
      hostId: testHost,
      kind: "log_line",
      source: "/var/log/app.log",
      attributes: { "file.path": "/var/log/app.log" },
      observedAt: null,
    });
    expect(Date.now() - Number(row?.receivedAt) / 1000).toBeLessThan(60_000);
  });

  it("reports rejected envelopes in the ack, also when the frame is resent", async () => {
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

  it("G6: rejects another host's id in Open, in a frame and in Submit, and stores nothing of the frame", async () => {
    const client = connect(await test.client({}));
    const queue = newQueue();
    const refusal = { code: status.PERMISSION_DENIED, reason: "host_identity_mismatch" };
    const other = "spiffe://fleet.test/host-2";
    expect((await forwardAll(client, [open(queue, other)])).error).toMatchObject(refusal);
    expect(
      (await forwardAll(client, [open(queue), { frame: frame(queue, 1, 2, other) }])).error,
    ).toMatchObject(refusal);
    for (const claim of [other, testHost.toUpperCase(), `${testHost}.`, ""])
      expect((await submit(client, frame(queue, 1, 2, claim))).error).toMatchObject(refusal);
    const long = await submit(client, frame(queue, 1, 2, "x".repeat(300)));
    expect(long.error).toMatchObject({ code: status.INVALID_ARGUMENT, reason: "host_id_too_long" });
    expect(await stored(queue)).toEqual([]);
  });

  it("G6: accepts a certificate with a single SAN, of DNS or URI, and never a common name", async () => {
    const queue = newQueue();
    const dns = connect(
      await test.client({ names: [{ type: "dns", value: "Host-1.example.test" }] }),
    );
    expect((await submit(dns, frame(queue, 1, 1, "Host-1.example.test"))).error).toBeUndefined();
    const nameless = connect(await test.client({ names: [], subject: `CN=${testHost}` }));
    const refused = { code: status.UNAUTHENTICATED, reason: "certificate_identity_invalid" };
    expect((await submit(nameless, frame(queue, 1, 1))).error).toMatchObject(refused);
    expect((await forwardAll(nameless, [open(queue)])).error).toMatchObject(refused);
  });

  it("answers a client without a certificate, with one of another CA, or with one outside its dates, with the reason, and logs it", async () => {
    const queue = newQueue();
    const other = await startTestIngest({ database: test.database });
    const stranger = await other.client({});
    await other.close();
    const expired = await test.client({ notAfter: new Date(Date.now() - 60_000) });
    const early = await test.client({ notBefore: new Date(Date.now() + 60_000) });
    const refusals = [
      {
        certificate: undefined,
        reason: "client_certificate_required",
        logged: "client_certificate_required",
      },
      { certificate: stranger, reason: "certificate_unknown", logged: "CERT_SIGNATURE_FAILURE" },
      { certificate: expired, reason: "certificate_expired", logged: "CERT_HAS_EXPIRED" },
      { certificate: early, reason: "certificate_expired", logged: "CERT_NOT_YET_VALID" },
    ];
    for (const { certificate, reason, logged } of refusals) {
      const refusal = { code: status.UNAUTHENTICATED, reason };
      expect((await submit(connect(certificate), frame(queue, 1, 1))).error).toMatchObject(refusal);
      expect((await forwardAll(connect(certificate), [open(queue)])).error).toMatchObject(refusal);
      const fields = { remote_address: "127.0.0.1", reason: logged };
      expect(test.log.lines).toContainEqual({
        level: "warn",
        message: "connection rejected",
        fields,
      });
    }
    expect(await stored(queue)).toEqual([]);
  });

  it("G3: ends an out-of-order or malformed stream with frame_invalid, and serves the next", async () => {
    const client = connect(await test.client({}));
    const queue = newQueue();
    const invalid = { code: status.INVALID_ARGUMENT, reason: "frame_invalid" };
    expect((await forwardAll(client, [{ frame: frame(queue, 1, 1) }])).error).toMatchObject(
      invalid,
    );
    expect((await forwardAll(client, [open(queue), open(queue)])).error).toMatchObject(invalid);
    expect((await forwardAll(client, [{}])).error).toMatchObject(invalid);
    expect((await forwardAll(client, [open(Buffer.alloc(15))])).error).toMatchObject(invalid);
    const twice = {
      ...frame(queue, 1, 1),
      envelopes: [...frame(queue, 1, 1).envelopes, ...frame(queue, 1, 1).envelopes],
    };
    expect((await submit(client, twice)).error).toMatchObject(invalid);
    expect((await forwardAll(client, [])).error).toBeUndefined();
    expect((await submit(client, frame(queue, 1, 1))).error).toBeUndefined();
  });

  it("rejects a frame over the limit with frame_too_large, in Forward and Submit, and acknowledges those before it", async () => {
    const client = connect(await test.client({}));
    const queue = newQueue();
    const large = frame(queue, 2, 2);
    const [only] = large.envelopes;
    if (only) only.payload = Buffer.alloc(1_000_100);
    const tooLarge = { code: status.RESOURCE_EXHAUSTED, reason: "frame_too_large" };
    const { messages, error } = await forwardAll(client, [
      open(queue),
      { frame: frame(queue, 1, 1) },
      { frame: large },
    ]);
    expect(error).toMatchObject(tooLarge);
    expect(messages.at(-1)?.ack?.acked_through).toBe("1");
    expect((await submit(client, large)).error).toMatchObject(tooLarge);
  });
});
