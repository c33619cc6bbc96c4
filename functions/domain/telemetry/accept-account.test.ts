import { createPrivateKey, hash } from "node:crypto";
import { create, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { beforeEach, describe, expect, it } from "vitest";
import { signBytes } from "#collector/management/signed-request.ts";
import { noteQueues } from "#functions/store/ingest/queues.ts";
import { hourMs } from "#kit/clock.ts";
import { accountPayload } from "#proto/completeness/account.ts";
import { AccountBodySchema } from "#proto/gen/svc/ingest/v1/ingest_pb.js";
import { createTestToken, type TestCollector } from "#tests/support/collector.ts";
import { useTestCore } from "#tests/support/core.ts";
import { readHourRules, readHourStatuses } from "../completeness/report-completeness.ts";
import { createAccountAcceptor, type SentAccount, type StreamOfAccount } from "./accept-account.ts";

type Fields = Omit<MessageInitShape<typeof AccountBodySchema>, "$typeName">;

const test = await useTestCore();
const { sql } = test.database.connect();
let host: TestCollector;
let other: TestCollector;
let hour: number;
const queueId = new Uint8Array(16).fill(5);

beforeEach(async () => {
  await sql`delete from ingest_account`;
  await sql`delete from ingest_cursor`;
  await sql`delete from export_position`;
  await sql`delete from core_outage`;
  const { enroll } = await createTestToken(test);
  host = await enroll(crypto.randomUUID());
  other = await enroll(crypto.randomUUID());
  // The next whole hour, so that the host was enrolled before it.
  hour = Math.ceil(test.clock.now() / hourMs) * hourMs;
  await test.clock.advance(hour + hourMs + 1_000 - test.clock.now());
});

const fingerprintOf = ({ certificate }: TestCollector) => hash("sha256", certificate, "buffer");
const callerOf = (of: TestCollector) => ({
  identity: of.identity,
  fingerprintSha256: fingerprintOf(of).toHex(),
  der: of.certificate,
});
/** What names an account in the one that follows it. */
const digestOf = (body: Uint8Array) =>
  Uint8Array.from(hash("sha256", accountPayload(body), "buffer"));
const taken = (through: bigint) => ({ through, refused: "" });
/** An id that the queue had before. */
const earlier = new Uint8Array(16).fill(1);
const signed = (body: Uint8Array, by: TestCollector = host) => ({
  body,
  signature: signBytes(createPrivateKey(by.key.pem), accountPayload(body)),
  earlierAreLost: false,
});
const bodyOf = (fields: Fields = {}, by: TestCollector = host) =>
  toBinary(
    AccountBodySchema,
    create(AccountBodySchema, {
      hostId: by.identity,
      queueId,
      number: 1n,
      certificateSha256: fingerprintOf(by),
      fromMs: BigInt(hour),
      toMs: BigInt(hour + hourMs),
      firstSequence: 1n,
      lastSequence: 100n,
      accepted: [{ kind: "log_line", source: "file", records: 100n, bytes: 1_000n }],
      ...fields,
    }),
  );
/** The members of account 2 behind another one. */
const behind = (body: Uint8Array) => ({ number: 2n, previousSha256: digestOf(body) });
/** Those of an account of no records, at the end of the hour. */
const none = () => ({
  accepted: [],
  firstSequence: 101n,
  lastSequence: 100n,
  fromMs: BigInt(hour + hourMs),
  toMs: BigInt(hour + hourMs),
});
/** Columns of the accounts that core has. */
const accounts = async (columns: string) =>
  Array.from(await sql.unsafe(`select ${columns} from ingest_account order by number`));
/** Core has counted of a queue what `counts` say, through `cursor`. */
const count = async (
  cursor: number,
  { of = queueId, stored = cursor, lost = 0, rejected = 0 } = {},
) => {
  await sql`
    insert into ingest_cursor (host_id, queue_id, cursor, updated_at, range_stored, range_lost, range_rejected, counted_through)
    values (${host.identity}, ${of}, ${cursor}, now(), ${stored}, ${lost}, ${rejected}, ${cursor})
    on conflict (host_id, queue_id) do update set cursor = excluded.cursor, range_stored = excluded.range_stored,
      range_lost = excluded.range_lost, range_rejected = excluded.range_rejected, counted_through = excluded.counted_through`;
};
/** A stream whose host left an id of its queue, with all through `ackedThrough` acknowledged. */
const streamBehind = (earlier: Uint8Array, ackedThrough: bigint) => ({
  queueId,
  sessionId: undefined,
  cursor: 100n,
  left: [{ queueId: earlier, ackedThrough }],
});
const accept = (sent: SentAccount, caller: TestCollector = host, stream?: StreamOfAccount) =>
  createAccountAcceptor(test.core)(callerOf(caller), sent, stream);
/** Core has reported that a queue of the host lost these sequences. */
const recordGap = async (of: Uint8Array, from: number, through: number) => {
  await sql`
    insert into audit_event (id, occurred_at, actor_type, actor_id, actor_display, action, target_type, target_id, outcome, details)
    values (gen_random_uuid(), now(), 'collector', '', ${host.identity}, 'ingest.gap', 'host', '', 'success',
      ${JSON.stringify({ queue_id: Buffer.from(of).toString("hex"), from, through })}::text::jsonb)`;
};
/** Decides on an hour by what the database has. */
const stateOf = async (hourStartMs = hour) => {
  const rules = await readHourRules(test.core);
  const [decided] = await readHourStatuses(test.core, rules, [
    { host: host.identity, hourStartMs },
  ]);
  return decided?.status;
};

describe("accepting an account", () => {
  it("ends the queue of which it is the last, also when it comes again, and refuses what follows", async () => {
    await count(100);
    const queues = () =>
      sql`select ending, ended_at::text from ingest_queue where host_id = ${host.identity}`;
    const last = signed(bodyOf({ ended: true }));
    expect(await accept(last)).toEqual(taken(1n));
    const ended = await queues();
    expect(ended).toMatchObject([{ ending: "ended", ended_at: expect.any(String) }]);
    await noteQueues(
      test.core.db,
      [{ hostId: host.identity, queueId, sendsAccounts: true }],
      new Date(),
    );
    expect(await queues()).toMatchObject([{ ending: "ended", ended_at: null }]);
    expect(await accept(last)).toEqual(taken(1n));
    expect(await queues()).toEqual(ended);
    expect(await accept(signed(bodyOf({ ...none(), number: 2n })))).toEqual({
      through: 2n,
      refused: "queue_ended",
    });
  });

  it("begins to count anew with each account, and finds an hour short of what a restored database lost", async () => {
    await count(100);
    await accept(signed(bodyOf()));
    const [row] =
      await sql`select range_stored::int as stored, counted_through::int as through from ingest_cursor`;
    expect(row).toEqual({ stored: 0, through: 100 });
    await count(150, { stored: 20, lost: 25, rejected: 5 });
    const next = bodyOf({
      ...behind(bodyOf()),
      firstSequence: 101n,
      lastSequence: 152n,
      fromMs: BigInt(hour + hourMs),
      toMs: BigInt(hour + 2 * hourMs),
      accepted: [{ records: 52n }],
    });
    expect(await accept(signed(next))).toEqual(taken(2n));
    await test.clock.advance(hourMs);
    expect(await stateOf(hour + hourMs)).toMatchObject({
      state: "short",
      shortages: [
        { kind: "rejected", count: 5 },
        { kind: "lost_in_restore", count: 25 },
        { kind: "missing", count: 2 },
      ],
    });
  });

  it("adds what it accepted to the sources of its day, once, and only of one that core does not refuse", async () => {
    await count(100);
    const odd = {
      kind: "log_line",
      source: `file\u0000${"x".repeat(300)}`,
      records: 40n,
      bytes: 2n ** 63n - 1n,
    };
    const accepted = [{ kind: "log_line", source: "file", records: 60n, bytes: 1_000n }, odd];
    const sent = signed(bodyOf({ accepted }));
    for (let time = 0; time < 2; time += 1) await accept(sent);
    await accept(signed(bodyOf({ number: 2n, lastSequence: 99n, accepted })));
    const rows =
      await sql`select day, source, envelopes::int, payload_bytes::text as bytes from volume_source
      where host_id = ${host.identity} order by source collate "C"`;
    const day = Math.floor(hour / 86_400_000);
    expect([...rows]).toEqual([
      { day, source: "file", envelopes: 60, bytes: "1000" },
      {
        day,
        source: `file${"x".repeat(195)}`,
        envelopes: 40,
        bytes: String(Number.MAX_SAFE_INTEGER),
      },
    ]);
  });

  it("O4: keeps no row for sources of no records, and those of one day in a bounded number of rows", async () => {
    let previousSha256 = new Uint8Array();
    /** Accounts, one a minute, each of 64 sources that none before has. */
    const send = async (number: number, records: number) => {
      const accepted = Array.from({ length: 64 }, (_, index) => ({
        kind: "a",
        source: `${number} ${index}`,
        records: BigInt(records),
      }));
      const lastSequence = BigInt(Math.max(0, number - 1) * 64);
      const body = bodyOf({
        number: BigInt(number),
        previousSha256,
        accepted,
        fromMs: BigInt(hour + number * 60_000),
        toMs: BigInt(hour + (number + 1) * 60_000),
        firstSequence: lastSequence + 1n - BigInt(64 * records),
        lastSequence,
      });
      previousSha256 = digestOf(body);
      return (await accept(signed(body))).refused;
    };
    const rowsOf = () =>
      sql`select source, envelopes::int from volume_source where host_id = ${host.identity}`;
    await count(64);
    expect(await send(1, 0)).toBe("");
    expect([...(await rowsOf())]).toEqual([]);
    expect(await send(2, 1)).toBe("");
    await count(128, { stored: 64 });
    expect(await send(3, 1)).toBe("");
    const rows = await rowsOf();
    expect(rows.length).toBe(65);
    expect(rows.filter(({ source }) => source === "other")).toEqual([
      { source: "other", envelopes: 64 },
    ]);
  });

  it("counts the sources of a host whose clock is years off on the day that its account comes", async () => {
    const at = BigInt(hour + 3_000 * 86_400_000);
    await count(100);
    expect((await accept(signed(bodyOf({ fromMs: at, toMs: at + 1_000n })))).refused).toBe("");
    const [row] = await sql`select day from volume_source where host_id = ${host.identity}`;
    expect(row?.day).toBe(Math.floor(test.clock.now() / 86_400_000));
  });

  it("keeps one account however often it comes, and asks for those before it", async () => {
    await count(100);
    const sent = signed(bodyOf());
    expect(await accept(sent)).toEqual(taken(1n));
    expect(await accept(sent)).toEqual(taken(1n));
    expect(await accept(signed(bodyOf({ number: 5n })))).toEqual(taken(1n));
    expect(await accounts("1")).toHaveLength(1);
  });

  it.each([1n, 5n])(
    "counts nothing as lost that was acknowledged under an earlier id, of a first account from %i",
    async (firstSequence) => {
      // Core had stored 11 to 13 alone: to the host, which opened the queue again, all through 13 was acknowledged.
      await count(20, { stored: 7, lost: 13 });
      await recordGap(queueId, 1, 13);
      const accepted = [{ records: 13n - firstSequence }];
      const first = bodyOf({ firstSequence, lastSequence: 12n, ackedBeforeThrough: 10n, accepted });
      expect(await accept(signed(first))).toEqual(taken(1n));
      const next = { firstSequence: 13n, lastSequence: 20n, accepted: [{ records: 8n }] };
      expect(await accept(signed(bodyOf({ ...behind(first), ...next })))).toEqual(taken(2n));
      expect(await accounts("lost::int, stored::int, missing::int, refused")).toEqual([
        { lost: 2, stored: 0, missing: 0, refused: null },
        { lost: 1, stored: 7, missing: 0, refused: null },
      ]);
    },
  );

  it("counts as lost what a database lost under the queue's earlier ids, and what its host no longer knows with the first account", async () => {
    const unrelated = new Uint8Array(16).fill(2);
    await recordGap(earlier, 6, 10);
    await recordGap(earlier, 9, 14);
    await recordGap(unrelated, 1, 5);
    await count(5, { of: earlier });
    await count(100, { stored: 88 });
    const stream = streamBehind(earlier, 12n);
    const first = bodyOf({ ackedBeforeThrough: 12n });
    expect(await accept(signed(first), host, stream)).toEqual(taken(1n));
    expect(await accounts("lost::int, stored::int, missing::int, is_checked")).toEqual([
      { lost: 9, stored: 88, missing: 0, is_checked: true },
    ]);
    const [queue] = await sql`select range_stored::int, range_lost::int from ingest_cursor
      where queue_id = ${queueId}`;
    expect(queue).toEqual({ range_stored: 0, range_lost: 0 });
    const next = bodyOf({ ...none(), ...behind(first) });
    expect(await accept(signed(next), host, stream)).toEqual(taken(2n));
    expect(await accounts("lost::int")).toEqual([{ lost: 9 }, { lost: 0 }]);
  });

  it("counts nothing as lost twice that the account before had as missing above the cursor", async () => {
    // The queue gave 55 up, so that no frame had it when the database was backed up.
    await count(54);
    const accepted = [{ records: 55n }];
    const first = bodyOf({ lastSequence: 55n, accepted });
    expect(await accept(signed(first))).toEqual(taken(1n));
    await count(56, { stored: 0, lost: 2 });
    await recordGap(queueId, 55, 56);
    const next = { firstSequence: 56n, lastSequence: 56n, accepted: [{ records: 1n }] };
    expect(await accept(signed(bodyOf({ ...behind(first), ...next })))).toEqual(taken(2n));
    expect(await accounts("lost::int, missing::int, is_checked")).toEqual([
      { lost: 0, missing: 1, is_checked: true },
      { lost: 1, missing: 0, is_checked: true },
    ]);
    const [row] = await sql`select range_lost::int from ingest_cursor`;
    expect(row).toEqual({ range_lost: 0 });
  });
  it.each([
    { of: "an earlier id that core rejected", stored: 9, rejected: 1, expected: ["rejected"] },
    { of: "an earlier id that never came", stored: 9, rejected: 0, expected: ["missing"] },
    { of: "an id that it does not know", stored: undefined, rejected: 0, expected: undefined },
  ])(
    "finds an hour incomplete that has a record of $of",
    async ({ stored, rejected, expected }) => {
      if (stored) await count(10, { of: earlier, stored, rejected });
      await count(100, { stored: 90 });
      const first = signed(bodyOf({ ackedBeforeThrough: 10n }));
      await accept(first, host, streamBehind(earlier, 10n));
      await test.clock.advance(15 * 60_000);
      const status = await stateOf();
      expect(status?.shortages.map(({ kind }) => kind)).toEqual(expected ?? []);
      expect(status?.state).toBe(expected ? "short" : "not_accounted");
      // What was counted under this id is taken off it alone.
      const [row] = await sql`select range_stored::int, range_rejected::int from ingest_cursor
        where queue_id = ${queueId}`;
      expect(row).toEqual({ range_stored: 0, range_rejected: 0 });
    },
  );

  it("asks for an earlier id's account that a database lost, and counts what it stated as lost if the host lost it too", async () => {
    await recordGap(earlier, 6, 12);
    await count(100, { stored: 90 });
    const stream = streamBehind(earlier, 10n);
    const after = { firstSequence: 11n, accepted: [{ records: 90n }], previousQueueId: earlier };
    const first = signed(bodyOf({ ...after, previousSha256: new Uint8Array(32) }));
    expect(await accept(first, host, stream)).toEqual(taken(0n));
    expect(await accounts("1")).toHaveLength(0);
    const asLost = { ...first, earlierAreLost: true };
    expect(await accept(asLost, host, stream)).toEqual(taken(1n));
    expect(await accounts("lost::int, is_checked, follows_gap")).toEqual([
      { lost: 7, is_checked: false, follows_gap: true },
    ]);
  });

  it("finds an hour short whose accounts a restored host and database both forgot", async () => {
    const stream = { ...streamBehind(earlier, 100n), cursor: 0n };
    const before = BigInt(hour - hourMs);
    const half = BigInt(hour + hourMs / 2);
    const chain = [
      { fromMs: before, toMs: before + 1_000n, ackedBeforeThrough: 100n },
      { ...none(), fromMs: before + 1_000n, toMs: half, stopped: true },
      { ...none(), fromMs: half },
    ];
    await recordGap(earlier, 101, 150);
    let previousSha256 = new Uint8Array();
    for (const [at, fields] of chain.entries()) {
      const body = bodyOf({ ...fields, number: BigInt(at + 1), previousSha256 });
      expect((await accept(signed(body), host, stream)).refused).toBe("");
      previousSha256 = digestOf(body);
    }
    await test.clock.advance(hourMs);
    expect(await stateOf()).toMatchObject({
      state: "short",
      shortages: [{ kind: "accounts_lost" }],
    });
  });

  it("counts nothing as lost behind an account of the earlier id that states it", async () => {
    await accept(
      signed(bodyOf({ queueId: earlier, lastSequence: 14n, accepted: [{ records: 14n }] })),
    );
    await recordGap(earlier, 9, 14);
    const stream = streamBehind(earlier, 8n);
    await count(100, { stored: 92 });
    await accept(signed(bodyOf({ ackedBeforeThrough: 8n })), host, stream);
    expect(
      (await sql`select lost::int from ingest_account where queue_id = ${queueId}`)[0],
    ).toEqual({ lost: 0 });
  });

  it.each([
    { of: "the same account, all acknowledged", acked: 14n, later: 0n, lost: 0 },
    { of: "the same account, a part acknowledged", acked: 11n, later: 0n, lost: 0 },
    { of: "the account of a copy", acked: 14n, later: 1n, lost: 6 },
  ])(
    "counts lost sequences of an earlier id once that an account of it has, and of $of",
    async ({ acked, later, lost }) => {
      await recordGap(earlier, 9, 14);
      await count(14, { of: earlier, stored: 8, lost: 6 });
      const stated = { lastSequence: 14n, accepted: [{ records: 14n }] };
      await accept(signed(bodyOf({ ...stated, queueId: earlier })));
      await count(100, { stored: 100 - Number(acked) });
      const again = { ...stated, fromMs: BigInt(hour) + later, ackedBeforeThrough: acked };
      await accept(signed(bodyOf(again)), host, streamBehind(earlier, acked));
      const rows = await sql`select lost::int from ingest_account order by queue_id`;
      expect([...rows]).toEqual([{ lost: 6 }, { lost }]);
    },
  );

  it.each([
    ["signature_invalid", () => ({ ...signed(bodyOf()), signature: new Uint8Array(70) })],
    ["signature_invalid", () => signed(bodyOf(), other)],
    ["host_mismatch", () => signed(bodyOf({}, other), other)],
    [
      "certificate_unknown",
      () => signed(bodyOf({ certificateSha256: fingerprintOf(other) }), other),
    ],
    ["malformed", () => signed(Uint8Array.of(0xff))],
    // More than an account may have, though each is empty.
    ["malformed", () => signed(bodyOf({ refused: Array.from({ length: 1_001 }, () => ({})) }))],
  ] as const)(
    "keeps one as evidence for %s, audits it, and shows its hour as short",
    async (reason, make) => {
      await count(100);
      expect(await accept(make())).toMatchObject({ refused: reason });
      const [evidence] = await sql`select refused from ingest_account where refused is not null`;
      expect(evidence).toEqual({ refused: reason });
      const [event] = await sql`
      select reason_code, outcome, target_id from audit_event where action = 'account.refuse' and target_id = ${host.identityId}`;
      expect(event).toMatchObject({ reason_code: reason, outcome: "failure" });
      // What nobody has signed is of the hour in which it came.
      await test.clock.advance(hourMs);
      const states = [await stateOf(hour), await stateOf(hour + hourMs)];
      expect(states).toContainEqual(
        expect.objectContaining({
          state: "short",
          shortages: [{ kind: "account_refused", count: null, reason }],
        }),
      );
    },
  );

  it("decides on none whose stream had a queue that the database no longer has, until the host has opened it again", async () => {
    const sessionId = new Uint8Array(16).fill(1);
    const caller = callerOf(host);
    const acceptOn = (stream: { cursor: bigint; sessionId?: Uint8Array; queueId?: Uint8Array }) =>
      createAccountAcceptor(test.core)(caller, signed(bodyOf()), { queueId, sessionId, ...stream });
    const rejects = (stream: Parameters<typeof acceptOn>[0]) =>
      expect(acceptOn(stream)).rejects.toMatchObject({ code: "sequence_gap" });
    await rejects({ cursor: 100n });
    await count(70);
    await rejects({ cursor: 70n });
    await sql`update ingest_cursor set session_id = ${sessionId}`;
    await rejects({ cursor: 100n });
    await rejects({ cursor: 70n, sessionId: new Uint8Array(16).fill(2) });
    expect(await accounts("1")).toHaveLength(0);
    await count(100, { stored: 70, lost: 30 });
    expect(await acceptOn({ cursor: 100n })).toEqual(taken(1n));
    // An account of a queue that its host has left says nothing of the stream's.
    expect(await acceptOn({ cursor: 500n, queueId: new Uint8Array(16).fill(9) })).toEqual(
      taken(1n),
    );
  });

  it("answers a refused account that comes again as it did before, and keeps it once", async () => {
    await count(100);
    const forged = { ...signed(bodyOf()), signature: new Uint8Array(70) };
    const refused = { through: 0n, refused: "signature_invalid" };
    expect([await accept(forged), await accept(forged)]).toEqual([refused, refused]);
    expect(await accounts("1")).toHaveLength(1);
    const events = await sql`
      select 1 from audit_event where action = 'account.refuse' and target_id = ${host.identityId}`;
    expect(events).toHaveLength(1);
  });

  it("refuses a forged predecessor and a number that is used, and still takes what follows", async () => {
    await count(100);
    await accept(signed(bodyOf()));
    expect(await accept(signed(bodyOf(none())))).toEqual({ through: 1n, refused: "number_used" });
    const forged = bodyOf({ ...none(), number: 2n, previousSha256: new Uint8Array(32) });
    expect(await accept(signed(forged))).toEqual({ through: 2n, refused: "predecessor_differs" });
    const next = bodyOf({ ...none(), ...behind(forged), number: 3n });
    expect(await accept(signed(next))).toEqual(taken(3n));
  });

  it("refuses one by a certificate that was revoked before", async () => {
    await count(100);
    await sql`update certificate set revoked_at = ${new Date(hour).toISOString()} where id = ${host.certificateId}`;
    expect(await accept(signed(bodyOf()))).toMatchObject({ refused: "certificate_revoked" });
  });

  it("keeps no more than a day's refused accounts of a host in an hour", async () => {
    const acceptOne = createAccountAcceptor(test.core);
    const caller = { ...callerOf(host), der: undefined };
    for (let number = 1n; number <= 30n; number++)
      await acceptOne(caller, { ...signed(bodyOf({ number })), signature: new Uint8Array(8) });
    expect(await accounts("1")).toHaveLength(24);
    await test.clock.advance(hourMs);
    await acceptOne(caller, { ...signed(bodyOf({ number: 99n })), signature: new Uint8Array(8) });
    expect(await accounts("1")).toHaveLength(25);
  });
});

it("a host that sends accounts in a loop costs nothing beyond its rate, and what core keeps of it is bounded", async () => {
  const acceptOne = createAccountAcceptor(test.core, { burst: 3 });
  let previousSha256 = new Uint8Array();
  const send = (number: bigint) => {
    const at = BigInt(hour);
    const range = { firstSequence: 1n, lastSequence: 0n, fromMs: at, toMs: at };
    const body = bodyOf({ ...range, accepted: [], number, previousSha256 });
    previousSha256 = digestOf(body);
    return acceptOne(callerOf(host), signed(body));
  };
  for (let number = 1n; number <= 3n; number++) expect(await send(number)).toEqual(taken(number));
  for (let number = 4n; number <= 40n; number++)
    expect(await send(number)).toMatchObject({ refused: "rate_limited" });
  const kept =
    await sql`select refused, count(*)::int as accounts from ingest_account group by 1 order by 1 nulls first`;
  expect(kept).toEqual([
    { refused: null, accounts: 3 },
    { refused: "rate_limited", accounts: 24 },
  ]);
  expect(await sql`select 1 from audit_event where reason_code = 'rate_limited'`).toHaveLength(24);
  expect(await acceptOne(callerOf(other), signed(bodyOf({}, other), other))).toMatchObject({
    refused: "",
  });
  // Those that were refused may come again.
  await test.clock.advance(hourMs);
  expect(await send(41n)).toEqual(taken(3n));
});
