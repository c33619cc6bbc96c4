import { hash } from "node:crypto";
import { constants, zstdCompressSync } from "node:zlib";
import { status } from "@grpc/grpc-js";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { canStartNats, type RunningNats, startNats } from "#scripts/lab/nats-servers.ts";
import { frame, newQueue, open, openSession, testHost } from "#tests/support/frames.ts";
import {
  connectForeign,
  connectInTest,
  cursorsOf,
  forked,
  forwardAll,
  openForward,
  submit,
  superseded,
} from "#tests/support/grpc-client.ts";
import {
  natsSinkOn,
  type Publish,
  readStream,
  streamSettings,
} from "#tests/support/ingest/nats-sink.ts";
import { startTestIngest, type TestIngest } from "#tests/support/ingest.ts";
import { testRun } from "#tests/support/stored-envelopes.ts";
import { subjectsOf } from "./subjects.ts";

const canStart = await canStartNats();

let nats: RunningNats;
let test: TestIngest;
let other: TestIngest;

beforeAll(async () => {
  nats = await startNats();
  test = await startTestIngest({ sink: natsSinkOn(nats), config: { payloadBytesMax: 1_000 } });
  other = await startTestIngest({ sink: natsSinkOn(nats), database: test.database });
});
afterAll(async () => {
  await other.close();
  await test.close();
  await nats.stop();
});

const connect = async (to: TestIngest = test) => connectInTest(to, await to.client({}));
const upTo = (count: number) => Array.from({ length: count }, (_, index) => index + 1);
/** Sends the messages of a stream; returns the cursors of the answers. */
const cursorsFor = async (sent: Parameters<typeof forwardAll>[1], to: TestIngest = test) =>
  cursorsOf(await forwardAll(await connect(to), sent));
const begin = async (queue: Buffer, session_id: Buffer) =>
  forwardAll(await connect(), [openSession(queue, { session_id }), { frame: frame(queue, 1, 2) }]);
const ofQueue = async (queue: Buffer) =>
  (await readStream(nats)).filter(({ headers }) => headers["Svc-Queue"] === queue.toString("hex"));
const sequencesOf = async (queue: Buffer) =>
  (await ofQueue(queue)).flatMap(({ sequences }) => sequences);
/** A frame of envelopes of these kinds, from sequence `from` on. */
const mixed = (queue: Buffer, from: number, kinds: readonly string[]) => {
  const all = frame(queue, from, from + kinds.length - 1);
  return {
    ...all,
    envelopes: all.envelopes.map((envelope, index) => ({ ...envelope, kind: kinds[index] })),
  };
};

describe.skipIf(!canStart)("the sink of NATS", () => {
  it("stores a frame as one block for each kind, in order, with its facts as headers", async () => {
    const queue = newQueue();
    const session = newQueue();
    const client = await connect();
    const source = "/var/log/naïve\r\nX: y.log";
    const sent = mixed(queue, 1, ["log_line", "otel_span", "log_line"]);
    Object.assign(sent.envelopes[0] as object, {
      source,
      observed_at: { seconds: 1_795_000_000, nanos: 123_456_789 },
    });
    const ended = await forwardAll(client, [
      openSession(queue, { session_id: session }),
      { frame: sent },
    ]);
    expect(cursorsOf(ended)).toEqual(["0", "3"]);
    const stored = await ofQueue(queue);
    const name = `spiffe%3A%2F%2Ffleet%2Etest%2Fhost-1.${queue.toString("hex")}`;
    expect(stored.map(({ subject, sequences, texts }) => [subject, sequences, texts])).toEqual([
      [`svc.ingest.log_line.${name}`, [1, 3], ["line 1", "line 3"]],
      [`svc.ingest.otel_span.${name}`, [2], ["line 2"]],
    ]);
    expect(stored[0]?.envelopes[0]).toMatchObject({
      hostId: testHost,
      source,
      attributes: { "file.path": "/var/log/app.log" },
      observedAt: 1_795_000_000_123_456n,
    });
    const kinds = ["log_line", "otel_span", "log_line"];
    const ofKind = (kind: string) =>
      testRun(
        sent.envelopes.flatMap((each, index) =>
          kinds[index] === kind
            ? [
                {
                  ...each,
                  sequence: BigInt(each.sequence),
                  kind,
                  observedAt: index === 0 ? observedAt : undefined,
                },
              ]
            : [],
        ),
      ).bytes;
    const observedAt = { seconds: 1_795_000_000n, nanos: 123_456_789 };
    expect(stored.map(({ headers }) => headers)).toMatchObject([
      {
        "Svc-Sequence": "1",
        "Svc-First-Sequence": "1",
        "Svc-Last-Sequence": "3",
        "Svc-Envelopes": "2",
        "Svc-Kind": "log_line",
        "Svc-Host": testHost,
        "Svc-Session": session.toString("hex"),
        "Svc-Received-At": expect.stringMatching(/^2\d{3}-.*\d{6}Z$/),
        "Svc-Encoding": "none",
        "Svc-Raw-Bytes": String(ofKind("log_line").length),
        "Svc-Sha256": hash("sha256", ofKind("log_line")),
      },
      {
        "Svc-Sequence": "3",
        "Svc-First-Sequence": "2",
        "Svc-Last-Sequence": "2",
        "Svc-Envelopes": "1",
        "Svc-Sha256": hash("sha256", ofKind("otel_span")),
      },
    ]);
  });

  it("stores a block of one kind as its sender compressed it", async () => {
    const queue = newQueue();
    const envelopes = frame(queue, 1, 100).envelopes.map((each) => ({
      ...each,
      sequence: BigInt(each.sequence),
    }));
    const raw = testRun(envelopes).bytes;
    const data = zstdCompressSync(raw, { params: { [constants.ZSTD_c_compressionLevel]: 19 } });
    const head = {
      host_id: testHost,
      queue_id: queue,
      previous_sequence: 0,
      last_sequence: 100,
      envelopes: 100,
    };
    const block = { ...head, raw_bytes: raw.length, encoding: "BLOCK_ENCODING_ZSTD", data };
    expect(await cursorsFor([open(queue), { block }])).toEqual(["0", "100"]);
    const [stored] = await ofQueue(queue);
    expect(stored?.data.equals(data)).toBe(true);
    expect(stored?.headers).toMatchObject({ "Svc-Encoding": "zstd", "Svc-Envelopes": "100" });
    // Cut at the cursor.
    expect(await cursorsFor([open(queue), { frame: frame(queue, 1, 102) }])).toEqual([
      "100",
      "102",
    ]);
    expect((await ofQueue(queue)).map(({ sequences }) => sequences.length)).toEqual([100, 2]);
  });

  it("stores a resend once, through either core, and reports the cursor at the next open", async () => {
    const queue = newQueue();
    expect(await cursorsFor([open(queue), { frame: frame(queue, 1, 5) }])).toEqual(["0", "5"]);
    const again = [open(queue), { frame: frame(queue, 1, 7) }];
    expect(await cursorsFor(again, other)).toEqual(["5", "7"]);
    expect(await cursorsFor(again)).toEqual(["7", "7"]);
    expect(await sequencesOf(queue)).toEqual([1, 2, 3, 4, 5, 6, 7]);
  });

  it("stores each envelope once when both cores get the same frames at once", async () => {
    const queue = newQueue();
    const kinds = Array.from(
      { length: 30 },
      (_, index) => ["log_line", "otel_span", "otel_metric"][index % 3] ?? "",
    );
    const one = await connect();
    const two = await connect(other);
    const frames = [
      open(queue),
      { frame: mixed(queue, 1, kinds) },
      { frame: mixed(queue, 31, kinds) },
    ];
    const ended = await Promise.all([one, two, one].map((client) => forwardAll(client, frames)));
    for (const each of ended) expect(cursorsOf(each).at(-1)).toBe("60");
    expect((await sequencesOf(queue)).sort((a, b) => a - b)).toEqual(upTo(60));
    for (const kind of ["log_line", "otel_span", "otel_metric"]) {
      const own = (await ofQueue(queue)).filter(({ headers }) => headers["Svc-Kind"] === kind);
      expect(own.flatMap(({ sequences }) => sequences)).toEqual(
        upTo(60).filter((sequence) => kinds[(sequence - 1) % 30] === kind),
      );
    }
  });

  describe("a frame of which core has stored one kind and not the other", () => {
    const kinds = ["log_line", "otel_span", "log_line", "otel_span", "log_line"];
    /** Sends the frame 1 to 5 through a core that loses its stream after the lines. */
    const storeLines = async (queue: Buffer, opening: object) => {
      const around = (publish: Publish, ...message: Parameters<Publish>) => {
        if (message[0].startsWith("svc.ingest.otel_span")) throw new Error("the stream is lost");
        publish(...message);
      };
      const core = await startTestIngest({
        sink: natsSinkOn(nats, { around }),
        database: test.database,
      });
      const client = connectForeign(core, await core.client({}));
      const ended = await forwardAll(client, [opening, { frame: mixed(queue, 1, kinds) }]);
      client.close();
      await core.close();
      expect(ended.error).toMatchObject({ reason: "stream_unavailable" });
      expect(await sequencesOf(queue)).toEqual([1, 3, 5]);
    };

    it("reports the cursor below what is missing, and stores the rest once, however it is cut again", async () => {
      const queue = newQueue();
      const mine = newQueue();
      const next = newQueue();
      await storeLines(queue, openSession(queue, { session_id: mine }));
      const again = openSession(queue, {
        session_id: next,
        previous_session_ids: [mine],
        sent_through: 5,
      });
      const frames = [
        mixed(queue, 2, kinds.slice(1, 4)),
        mixed(queue, 5, ["log_line", "log_line"]),
      ];
      const ended = await forwardAll(await connect(), [
        again,
        ...frames.map((each) => ({ frame: each })),
      ]);
      expect(cursorsOf(ended)).toEqual(["1", "4", "6"]);
      expect((await ofQueue(queue)).map(({ sequences }) => sequences)).toEqual([
        [1, 3, 5],
        [2, 4],
        [6],
      ]);
    });

    it("stores the rest once for a sender without sessions", async () => {
      const queue = newQueue();
      await storeLines(queue, open(queue));
      expect(await cursorsFor([open(queue), { frame: mixed(queue, 1, kinds) }])).toEqual([
        "1",
        "5",
      ]);
      expect((await ofQueue(queue)).map(({ sequences }) => sequences)).toEqual([
        [1, 3, 5],
        [2, 4],
      ]);
    });

    it("Q11: rejects a copy of the queue that has sent less than is stored", async () => {
      const queue = newQueue();
      const mine = newQueue();
      const copy = newQueue();
      await storeLines(queue, openSession(queue, { session_id: mine }));
      const opening = openSession(queue, {
        session_id: copy,
        previous_session_ids: [mine],
        sent_through: 2,
      });
      expect((await forwardAll(await connect(), [opening])).error).toMatchObject(forked);
    });
  });

  it("splits a block above the server's max_payload", async () => {
    const small = await startNats({ settings: "max_payload: 65536" });
    const core = await startTestIngest({
      sink: natsSinkOn(small),
      config: { payloadBytesMax: 40_000 },
    });
    const client = connectForeign(core, await core.client({}));
    try {
      const queue = newQueue();
      const sent = frame(queue, 1, 40);
      for (const envelope of sent.envelopes)
        envelope.payload = Buffer.from(crypto.getRandomValues(new Uint8Array(9_000)));
      (sent.envelopes[20] as { payload: Buffer }).payload = Buffer.from(
        crypto.getRandomValues(new Uint8Array(40_000)),
      );
      expect((await submit(client, sent)).messages).toMatchObject([
        { ack: { acked_through: "40" } },
      ]);
      const stored = await readStream(small);
      expect(stored.flatMap(({ sequences }) => sequences)).toEqual(upTo(40));
      expect(stored.length).toBeGreaterThan(6);
      expect(stored.length).toBeLessThan(16);
      expect(Math.max(...stored.map(({ data }) => data.length))).toBeLessThan(65_536);
    } finally {
      client.close();
      await core.close();
      await small.stop();
    }
  });

  it("rejects a frame beyond a gap with the cursor, and stores nothing of it", async () => {
    const queue = newQueue();
    const client = await connect();
    await submit(client, frame(queue, 1, 2));
    const gap = await submit(client, frame(queue, 5, 6));
    expect(gap.error).toMatchObject({ code: status.FAILED_PRECONDITION, reason: "sequence_gap" });
    expect(await sequencesOf(queue)).toEqual([1, 2]);
  });

  it("keeps the cursor over rejected envelopes at the end of a frame", async () => {
    const queue = newQueue();
    const session = newQueue();
    const bad = frame(queue, 1, 3);
    for (const envelope of bad.envelopes.slice(1)) envelope.payload = Buffer.alloc(2_000);
    await forwardAll(await connect(), [
      openSession(queue, { session_id: session }),
      { frame: bad },
    ]);
    const next = openSession(queue, {
      session_id: newQueue(),
      previous_session_ids: [session],
      acked_through: 3,
    });
    expect(await cursorsFor([next, { frame: frame(queue, 4, 4) }], other)).toEqual(["3", "4"]);
    expect(await sequencesOf(queue)).toEqual([1, 4]);
    expect(other.observed.filter(({ name }) => name === "gap")).toEqual([]);
  });

  it("Q11: fences a session across kinds and cores: after a takeover it stores nothing, not even of a kind it never used", async () => {
    const queue = newQueue();
    const mine = newQueue();
    const next = newQueue();
    const old = openForward(await connect());
    old.call.write(openSession(queue, { session_id: mine }));
    old.call.write({ frame: mixed(queue, 1, ["log_line", "otel_span"]) });
    await expect.poll(() => old.messages.length).toBe(2);
    const taken = await forwardAll(await connect(other), [
      openSession(queue, { session_id: next, previous_session_ids: [mine] }),
      { frame: mixed(queue, 3, ["log_line"]) },
    ]);
    expect(cursorsOf(taken)).toEqual(["2", "3"]);
    old.call.write({ frame: mixed(queue, 3, ["otel_metric", "otel_span"]) });
    expect((await old.ended).error).toMatchObject(superseded);
    expect(
      (await ofQueue(queue)).map(({ sequences, headers }) => [sequences, headers["Svc-Kind"]]),
    ).toEqual([
      [[1], "log_line"],
      [[2], "otel_span"],
      [[3], "log_line"],
    ]);
  });

  it("Q11: rejects a copy whose history lacks the newest session, with an audit event", async () => {
    const queue = newQueue();
    const shared = newQueue();
    const mine = newQueue();
    const copy = newQueue();
    await begin(queue, shared);
    await forwardAll(await connect(), [
      openSession(queue, { session_id: mine, previous_session_ids: [shared] }),
      { frame: frame(queue, 3, 6) },
    ]);
    const stranger = openSession(queue, { session_id: copy, previous_session_ids: [shared] });
    for (const core of [test, other])
      expect(
        (await forwardAll(await connect(core), [stranger, { frame: frame(queue, 3, 4) }])).error,
      ).toMatchObject(forked);
    expect(await sequencesOf(queue)).toEqual([1, 2, 3, 4, 5, 6]);
    const events = await test.connection.sql`
      select action, details->>'cursor' as cursor from audit_event where details->>'queue_id' = ${queue.toString("hex")}`;
    expect(events).toEqual([
      { action: "queue.forked", cursor: "6" },
      { action: "queue.forked", cursor: "6" },
    ]);
  });

  it("Q12: rejects a copy also where the stream of states went back, alone, to a session that it knows", async () => {
    const queue = newQueue();
    const shared = newQueue();
    const subject = subjectsOf({ hostId: testHost, queueId: queue }).state;
    await begin(queue, shared);
    const before = await nats.manager.streams.getMessage("SVC_INGEST_QUEUES", {
      last_by_subj: subject,
    });
    await forwardAll(await connect(), [
      openSession(queue, { session_id: newQueue(), previous_session_ids: [shared] }),
      { frame: frame(queue, 3, 6) },
    ]);
    const headers = before?.header ?? expect.unreachable();
    headers.delete("Nats-Expected-Last-Subject-Sequence");
    nats.connection.publish(subject, before?.data, { headers });
    await nats.connection.flush();
    const copy = { session_id: newQueue(), previous_session_ids: [shared], sent_through: 7 };
    const sent = [openSession(queue, copy), { frame: frame(queue, 3, 7) }];
    expect((await forwardAll(await connect(other), sent)).error).toMatchObject(forked);
  });

  it("records what a restored stream lost, and continues after it", async () => {
    const queue = newQueue();
    const claims = { session_id: newQueue(), acked_through: 4 };
    expect(await cursorsFor([openSession(queue, claims), { frame: frame(queue, 5, 6) }])).toEqual([
      "4",
      "6",
    ]);
    expect(await sequencesOf(queue)).toEqual([5, 6]);
    const events = await test.connection.sql`
      select action, details->>'from' as from, details->>'through' as through from audit_event
      where details->>'queue_id' = ${queue.toString("hex")}`;
    expect(events).toEqual([{ action: "ingest.gap", from: "1", through: "4" }]);
    expect(test.observed).toContainEqual({ name: "gap", facts: 4n });
  });

  it.each([
    { what: "all that a stream lost of a queue when it went back alone", acked: 3, gaps: ["1-3"] },
    { what: "all that it lost below an earlier loss", acked: 5, gaps: ["4-5", "1-5"] },
    { what: "nothing of what retention deleted", acked: 3, isDeleted: true, gaps: [] },
  ])("Q12: records $what", async ({ acked, isDeleted = false, gaps }) => {
    const queue = newQueue();
    const client = await connect();
    await submit(client, frame(newQueue(), 1, 1));
    const first = newQueue();
    const second = newQueue();
    const opened = { session_id: first };
    await forwardAll(client, [openSession(queue, opened), { frame: frame(queue, 1, 3) }]);
    const later = { acked_through: acked, previous_session_ids: [first, second] };
    // From here on the state has the queue's cursor.
    await forwardAll(client, [openSession(queue, { ...later, session_id: second })]);
    const { streams } = nats.manager;
    const { state } = await streams.info(streamSettings.stream);
    const filter = `svc.ingest.*.*.${queue.toString("hex")}`;
    await streams.purge(
      streamSettings.stream,
      isDeleted ? { seq: state.last_seq + 1 } : { filter },
    );
    const sent = [
      openSession(queue, { ...later, session_id: newQueue() }),
      { frame: frame(queue, acked + 1, acked + 2) },
    ];
    expect(cursorsOf(await forwardAll(client, sent))).toEqual([`${acked}`, `${acked + 2}`]);
    const events = await test.connection.sql`
      select concat_ws('-', details->>'from', details->>'through') as gap from audit_event
      where action = 'ingest.gap' and details->>'queue_id' = ${queue.toString("hex")} order by occurred_at, id`;
    expect(events.map(({ gap }) => gap)).toEqual(gaps);
  });

  it("Q12: records once what a restored stream lost of queues that were left, unless their state may have been trimmed", async () => {
    const host = "spiffe://fleet.test/left";
    const client = connectInTest(test, await test.client({ uri: host }));
    const known = newQueue();
    const lost = newQueue();
    const later = newQueue();
    const queue = newQueue();
    const openOf = (queue_id: Buffer, left: readonly [Buffer, number, number?][] = []) => ({
      open: {
        host_id: host,
        queue_id,
        session_id: newQueue(),
        left_queues: left.map(([id, stored_through, acked_through = 0]) => ({
          queue_id: id,
          stored_through,
          acked_through,
        })),
      },
    });
    await forwardAll(client, [openOf(known), { frame: frame(known, 1, 3, host) }]);
    const claims = openOf(queue, [
      [known, 3],
      [lost, 5],
    ]);
    for (let times = 0; times < 2; times++)
      expect((await forwardAll(client, [claims])).messages).toMatchObject([
        { opened: { left_cursors: ["3", "0"] } },
      ]);
    // Its sequences go on above those that were acknowledged under the ids before it.
    await forwardAll(client, [
      openOf(queue, [
        [later, 8],
        [lost, 0, 5],
      ]),
    ]);
    for (let index = 0; index < 16; index++) await forwardAll(client, [openOf(newQueue())]);
    const answer = await forwardAll(client, [openOf(newQueue(), [[newQueue(), 7]])]);
    expect(answer.messages).toMatchObject([{ opened: { left_cursors: ["7"] } }]);
    const events = await test.connection.sql`
      select details->>'queue_id' as queue, details->>'from' as from, details->>'through' as through from audit_event
      where action = 'ingest.gap' and details->>'host_id' = ${host} order by 2`;
    expect(events).toEqual([
      { queue: lost.toString("hex"), from: "1", through: "5" },
      { queue: later.toString("hex"), from: "6", through: "8" },
    ]);
  });

  it("K9: counts nothing as lost that PostgreSQL has, where core stored before", async () => {
    const queue = newQueue();
    const { sql } = test.connection;
    await sql`insert into ingest_cursor (host_id, queue_id, cursor, updated_at) values (${testHost}, ${queue}, 4, now())`;
    const open = (acked_through: number) =>
      openSession(queue, { session_id: newQueue(), acked_through });
    expect(await cursorsFor([open(4), { frame: frame(queue, 5, 6) }])).toEqual(["4", "6"]);
    const left = newQueue();
    await sql`insert into ingest_cursor (host_id, queue_id, cursor, updated_at) values (${testHost}, ${left}, 4, now())`;
    const later = openSession(newQueue(), {
      session_id: newQueue(),
      left_queues: [{ queue_id: left, stored_through: 4 }],
    });
    expect((await forwardAll(await connect(), [later])).messages).toMatchObject([
      { opened: { left_cursors: ["4"] } },
    ]);
    const ids = [queue, left].map((id) => id.toString("hex"));
    const events = await sql`select 1 from audit_event where details->>'queue_id' in ${sql(ids)}`;
    expect(events).toHaveLength(0);
    await sql`delete from ingest_cursor`;
  });

  it("writes last_envelope_at and the volume of a host to PostgreSQL within seconds", async () => {
    const host = "spiffe://fleet.test/counted";
    const client = connectInTest(test, await test.client({ uri: host }));
    await submit(client, frame(newQueue(), 1, 3, host));
    await expect
      .poll(
        () =>
          test.connection
            .sql`select kind, envelopes::int, payload_bytes::int from ingest_hour where host_id = ${host}`,
      )
      .toEqual([{ kind: "log_line", envelopes: 3, payload_bytes: 18 }]);
    const [row] = await test.connection
      .sql`select last_envelope_at from ingest_host where host_id = ${host}`;
    expect(Date.now() - new Date(row?.last_envelope_at).getTime()).toBeLessThan(60_000);
  });

  it("keeps the states of a host's 16 newest queues", async () => {
    const host = "spiffe://fleet.test/many";
    const client = connectInTest(test, await test.client({ uri: host }));
    for (let index = 0; index < 18; index++)
      await forwardAll(client, [
        { open: { host_id: host, queue_id: newQueue(), session_id: newQueue() } },
      ]);
    const filter = { subjects_filter: "svc.queue.spiffe%3A%2F%2Ffleet%2Etest%2Fmany.*" };
    const { state } = await nats.manager.streams.info("SVC_INGEST_QUEUES", filter);
    expect(Object.keys(state.subjects ?? {})).toHaveLength(16);
  });

  it("stores further kinds of a queue on one subject, with the kind in the header", async () => {
    const queue = newQueue();
    const kinds = Array.from({ length: 19 }, (_, index) => `kind_${index}`);
    await submit(await connect(), mixed(queue, 1, kinds));
    const stored = await ofQueue(queue);
    expect(stored.map(({ headers }) => headers["Svc-Kind"])).toEqual(kinds);
    expect(new Set(stored.map(({ subject }) => subject.split(".")[2])).size).toBe(17);
  });
});
