import { unlinkSync } from "node:fs";
import { cp, rm } from "node:fs/promises";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import type { Queue } from "#collector/queue/queue.ts";
import { exportStatement } from "#functions/domain/completeness/export-statement.ts";
import { settleHours } from "#functions/domain/completeness/settle-hours.ts";
import { writeStatement } from "#functions/domain/completeness/write-statement.ts";
import { zstdCodec } from "#functions/node/ingest/zstd-codec.ts";
import { dayAt, findDays } from "#functions/store/completeness/days.ts";
import { extendSession } from "#functions/store/fleet/core-sessions.ts";
import { endQueue } from "#functions/store/ingest/queues.ts";
import { dayMs, hourMs, systemClock } from "#kit/clock.ts";
import { unpackNotes } from "#proto/completeness/hour-note.ts";
import { stateOfByte } from "#proto/completeness/hour-state.ts";
import { readLosses } from "#proto/completeness/lost-ranges.ts";
import { parseStatementFile } from "#proto/completeness/statement-file.ts";
import { createInProcessCore } from "#scripts/lab/in-process-core.ts";
import { seedFleet } from "#scripts/lab/seed-fleet.ts";
import type { TestClock } from "../fakes/clock.ts";
import { createSeededEntropy } from "../fakes/entropy.ts";
import { exportThrough } from "../support/accounts.ts";
import { eventually } from "../support/eventually.ts";
import { startOtlpBackend } from "../support/ingest/otlp-backend.ts";
import { startProgram, stopProgram } from "../support/program.ts";
import {
  accountingHost,
  appendTexts,
  numberedTexts,
  startAccountingHost,
} from "./support/accounting-host.ts";
import { createTestFiles, settle } from "./support/file-source.ts";
import { createTestJournal } from "./support/journal.ts";
import { traceRequest } from "./support/otlp.ts";
import { createRuledSource } from "./support/ruled-source.ts";

/* Each state of a host's hour, from a real queue over core's real listener and database to the statement. */

const minuteMs = 60_000;
const owner = "01920000-0000-7000-8000-00000000000a";
const two = Math.floor(Date.now() / dayMs - 8) * dayMs + 2 * hourMs;
const named = (hour: number) => new Date(hour).toISOString().replace(".000", "");
/** Core's clock, which differs from the host's by so much; only waits are real. */
const clockOfCore = (aheadMs: number) => (host: TestClock) => ({
  ...systemClock,
  now: () => host.now() + aheadMs,
});

/** Starts a host at 02:00 by its clock, unless told otherwise with an export that has delivered everything; the hour before is stated. */
const start = async ({
  startMs = two,
  aheadMs = 0,
  takesAccounts = true,
  isDelivered = true,
}: {
  startMs?: number;
  aheadMs?: number;
  takesAccounts?: boolean;
  isDelivered?: boolean;
} = {}) => {
  const test = await startAccountingHost({
    startMs,
    coreClock: clockOfCore(aheadMs),
    takesAccounts,
  });
  const { clock, connection } = test;
  const { db, sql } = connection;
  await seedFleet(db, { count: 1, now: new Date(clock.now()) });
  if (isDelivered) await exportThrough(db, 0);
  const core = createInProcessCore({ db, clock: clockOfCore(aheadMs)(clock) });
  const settleOne = (by = core) => settleHours(by, { owner, retentionDays: 400 });
  const stateOne = (by = core) => writeStatement({ ...by, logSigner: null }, owner);
  const before = { ...core, clock: { ...systemClock, now: () => startMs + 15 * minuteMs } };
  await settleOne(before);
  await stateOne(before);
  /** Settles and states what is due, as core's jobs do, with an export that has delivered everything if `isDelivered`. */
  const settle = async () => {
    if (isDelivered)
      await sql`update export_position set position = pg_snapshot_xmax(pg_current_snapshot())::text::bigint`;
    for (let isDue = true; isDue; ) isDue = (await settleOne())?.hour !== undefined;
    for (let isDue = true; isDue; ) isDue = (await stateOne()) !== undefined;
  };
  const stateAt = async (hour: number) => {
    const [row] = await findDays(db, [accountingHost], { from: dayAt(hour), to: dayAt(hour) });
    const at = (hour % dayMs) / hourMs;
    const { shortages = [] } = unpackNotes(row?.details ?? null).get(at) ?? {};
    return { state: stateOfByte(row?.states[at]), shortages };
  };
  /** The lines of a statement, without the name of the host, its queues and the digest of its accounts. */
  const linesAt = async (hour: number) => {
    let text = "";
    for await (const part of exportStatement(
      { db, codec: zstdCodec },
      { hour: new Date(hour), withAccounts: false },
    ))
      text += part;
    const lines = text.split("\n").filter((line) => line.startsWith("line "));
    return lines.map((line) => line.replace(/^line \d+ \S+ /, "").replace(/ (queues|of)=\S+/g, ""));
  };
  /** What the accounts in the file of a statement say of each rule. */
  const rulesAt = async (hour: number) => {
    const parts: string[] = [];
    const order = { hour: new Date(hour), host: accountingHost, withAccounts: true };
    for await (const part of exportStatement({ db, codec: zstdCodec }, order)) parts.push(part);
    const accounts = parseStatementFile(parts.join("")).lines.flatMap((line) => line.accounts);
    return Object.fromEntries(accounts.flatMap(({ body }) => [...readLosses(body).rules]));
  };
  /** Settles an hour's end: once its grace is over by core's clock. */
  const pastGrace = async (hour: number, ...queues: readonly Queue[]) => {
    const minutes = (hour + hourMs + 15 * minuteMs - (clock.now() + aheadMs)) / minuteMs;
    await test.pass(Math.max(0, minutes), ...queues);
    await settle();
  };
  const add = (queue: Queue, count: number) => appendTexts(queue, numberedTexts(count));
  return {
    ...test,
    sql,
    settle,
    stateAt,
    linesAt,
    rulesAt,
    pastGrace,
    expectState: async (state: string, ...hours: readonly number[]) => {
      for (const hour of hours) expect(await stateAt(hour)).toEqual({ state, shortages: [] });
    },
    openForwarded: () => {
      const queue = test.open();
      return { queue, stop: test.forward(queue) };
    },
    add,
    /** Adds so many records, and waits until core has them. */
    send: async (queue: Queue, count: number) => {
      await add(queue, count);
      await test.drained(queue);
    },
    /** Copies the queue's folder; returns the copy's. */
    copy: async () => {
      const copied = `${test.dir}-copy`;
      await cp(test.dir, copied, { recursive: true });
      onTestFinished(() => rm(copied, { recursive: true }));
      return copied;
    },
  };
};

it("is complete when all that its collector accepted is stored and delivered", async () => {
  const test = await start();
  const { queue } = test.openForwarded();
  await test.sendHour(queue, 25);
  await test.pastGrace(two, queue);
  await test.expectState("complete", two);
  expect(await test.linesAt(two)).toEqual(["complete accepted=25 stored=25 delivered=backend"]);
});

it("is complete when rules of the host dropped and changed records, and says how many", async () => {
  const test = await start();
  const { queue } = test.openForwarded();
  const { append } = await createRuledSource(queue, [
    { name: "no-debug", drop: { severityBelow: "info" } },
    { name: "mail", redact: { presets: ["email"], patterns: [] } },
  ]);
  await appendTexts({ append }, ["DEBUG a", "ERROR b@example.com", "DEBUG c"]);
  await test.pass(60, queue);
  await test.settled(queue);
  await test.pastGrace(two, queue);
  await test.expectState("complete", two);
  const line = "complete accepted=1 stored=1 filtered=2 redacted=1 delivered=backend";
  expect(await test.linesAt(two)).toEqual([line]);
});

it("says what rules dropped and redacted beside what a vacuum of the journal lost, by rule", async () => {
  const test = await start();
  const { queue } = test.openForwarded();
  const { append } = await createRuledSource(queue, [
    { name: "no-debug", drop: { severityBelow: "info" } },
    { name: "cards", redact: { presets: ["card"], patterns: [] } },
  ]);
  const card = ["4111", "1111", "1111", "1111"].join(" ");
  await appendTexts({ append }, ["DEBUG a", `INFO paid by ${card}`, "ERROR b", "DEBUG c"]);
  const journal = createTestJournal(queue);
  journal.storeBy(append);
  journal.write(1, 2, { PRIORITY: "7" });
  journal.write(3, 5, { PRIORITY: "4" });
  await journal.start();
  await eventually(() => expect(queue.lastSequence).toBe(5));
  await journal.stop();
  journal.vacuum();
  journal.write(11, 12, { PRIORITY: "4" });
  await journal.start();
  await eventually(() => expect(queue.lastSequence).toBe(7));
  await journal.stop();
  await test.sendHour(queue, 0);
  await test.pastGrace(two, queue);
  expect(await saidOf(test, two)).toEqual({
    state: "short",
    shortages: [{ kind: "file_gap", count: null }],
    line: "short accepted=7 stored=7 file_gaps=1 filtered=4 redacted=1 short=file_gap delivered=backend",
    chat: [{ state: "short", short_of: "file_gap" }],
  });
  expect(await test.rulesAt(two)).toEqual({
    "no-debug": { filtered: 4, redacted: 0 },
    cards: { filtered: 0, redacted: 1 },
  });
});

it("is short of 310 records that a full queue dropped", async () => {
  const test = await start();
  const queue = test.open({ maxDiskUsageBytes: 5_000, dropNewestOnFull: true });
  while (queue.stats().droppedRecordsTotal < 310) await test.add(queue, 10);
  const accepted = queue.stats().records;
  await test.pass(60, queue);
  test.forward(queue);
  await test.settled(queue);
  await test.pastGrace(two, queue);
  expect(await test.stateAt(two)).toEqual({
    state: "short",
    shortages: [{ kind: "dropped", count: 310 }],
  });
  const line = `short accepted=${accepted} stored=${accepted} queue_full=310 short=dropped delivered=backend`;
  expect(await test.linesAt(two)).toEqual([line]);
});

it("is short of what a restored database lost, hour by hour", async () => {
  const test = await start();
  const { queue, stop } = test.openForwarded();
  for (const count of [10, 20, 30]) await test.sendHour(queue, count);
  await test.pass(20, queue);
  await test.settle();
  expect(await test.stateAt(two + 2 * hourMs)).toMatchObject({ state: "complete" });
  await stop();
  // Back to the first hour.
  await test.sql`delete from ingest_account where number > 1`;
  await test.sql`delete from ingest_block where first_sequence > 10`;
  await test.sql`update ingest_cursor set cursor = 10, counted_through = 10, range_stored = 0, range_digest = null`;
  test.forward(queue);
  await test.add(queue, 5);
  await test.pass(40, queue);
  await test.settled(queue);
  await test.pastGrace(two + 3 * hourMs, queue);
  // Core has the accounts again that it lost too, and names the range.
  const accounts = (await test.accounts()).toSorted((a, b) => a.number - b.number);
  expect(
    accounts.map(({ number, refused, is_checked: isChecked }) => [number, refused, isChecked]),
  ).toEqual([
    [1, null, true],
    [2, null, false],
    [3, null, false],
    [4, null, true],
  ]);
  expect(await test.sql`select records_max::int as lost from ingest_gap`).toEqual([{ lost: 50 }]);
  const lost = (count: number) => ({
    state: "short",
    shortages: [{ kind: "lost_in_restore", count }],
  });
  await test.expectState("complete", two);
  expect(await test.stateAt(two + hourMs)).toEqual(lost(20));
  expect(await test.stateAt(two + 2 * hourMs)).toEqual(lost(30));
  await test.expectState("complete", two + 3 * hourMs);
  const hours = await test.linesAt(two + 3 * hourMs);
  expect(hours).toContain(
    `short hour=${named(two + hourMs)} accepted=20 lost=20 short=lost_in_restore delivered=backend`,
  );
});

it("is complete for a queue and its clone together", async () => {
  const test = await start();
  const { queue, stop } = test.openForwarded();
  await test.send(queue, 20);
  await stop();
  await test.add(queue, 5);
  await queue.close();
  const copied = await test.copy();
  const original = test.open();
  test.forward(original);
  await test.send(original, 7);
  const copy = test.open({ entropy: createSeededEntropy(2) }, copied);
  test.forward(copy);
  await test.send(copy, 30);
  expect(copy.stats().forks).toBe(1);
  await test.pass(60, original, copy);
  for (const each of [original, copy]) await test.settled(each);
  await test.pastGrace(two, original, copy);
  await test.expectState("complete", two);
  // The five that both had are stored twice, and stated twice.
  expect(await test.linesAt(two)).toEqual([
    expect.stringMatching(/^complete accepted=\d+ stored=67 /),
  ]);
});

it("is silent while its host sleeps for three days, and not running once the host says so", async () => {
  const test = await start({ startMs: two - hourMs });
  const { queue } = test.openForwarded();
  await test.sendHour(queue, 0);
  await test.add(queue, 5);
  await test.pass(30, queue);
  await test.drained(queue);
  // The machine, and its monotonic clock, stand still for the collector.
  await test.clock.advance(3 * dayMs);
  await test.settle();
  const asleep = two + 10 * hourMs;
  const woken = two + 3 * dayMs;
  await test.expectState("silent", asleep);
  queue.accounts.observe();
  await test.add(queue, 3);
  await test.pass(30, queue);
  await test.settled(queue);
  await test.pastGrace(woken, queue);
  await test.expectState("not_running", two + hourMs, asleep, two + 3 * dayMs - hourMs);
  await test.expectState("complete", two, woken);
});

it("is explained by an outage of core from 02:40 to 02:55 until its account comes", async () => {
  const test = await start({ startMs: two - hourMs });
  const { db } = test.connection;
  const extend = (session: number, [from, until]: [number, number]) =>
    db.transaction((tx) =>
      extendSession(tx, {
        sessionId: `01920000-0000-7000-8000-00000000000${session}`,
        outageId: `01920000-0000-7000-8000-0000000000f${session}`,
        from: new Date(two + from * minuteMs),
        until: new Date(two + until * minuteMs),
      }),
    );
  const { queue, stop } = test.openForwarded();
  await test.sendHour(queue, 0);
  await extend(1, [-60, 40]);
  await test.add(queue, 40);
  await test.pass(40, queue);
  await test.drained(queue);
  await stop();
  await test.add(queue, 15);
  await test.pass(15, queue);
  await extend(2, [55, 55]);
  await test.pass(20, queue);
  await extend(2, [55, 75]);
  await test.settle();
  await test.expectState("core_out", two);
  expect(await test.linesAt(two)).toEqual(["core_out"]);
  test.forward(queue);
  await test.settled(queue);
  await test.settle();
  await test.expectState("complete", two);
  await test.pass(45, queue);
  await test.settled(queue);
  await extend(2, [55, 135]);
  await test.pastGrace(two + hourMs, queue);
  const corrected = `complete hour=${named(two)} accepted=55 stored=55 delivered=backend`;
  expect(await test.linesAt(two + hourMs)).toContain(corrected);
});

it("is complete when core's clock is 40 minutes behind the host's, and says so", async () => {
  const test = await start({ aheadMs: -40 * minuteMs });
  const { queue } = test.openForwarded();
  for (let hour = 0; hour < 3; hour++) await test.sendHour(queue, 10);
  for (const hour of [two, two + hourMs]) {
    await test.pastGrace(hour, queue);
    await test.expectState("complete", hour);
    expect(await test.linesAt(hour)).toContain(
      "complete accepted=10 stored=10 clock=ahead delivered=backend",
    );
  }
});

it("is late, and then complete, when core's clock is 40 minutes ahead of the host's", async () => {
  const test = await start({ startMs: two - hourMs, aheadMs: 40 * minuteMs });
  const { queue } = test.openForwarded();
  await test.sendHour(queue, 0);
  await test.add(queue, 10);
  await test.pass(36, queue);
  // It speaks.
  await test.send(queue, 1);
  await test.settle();
  await test.expectState("late", two);
  await test.pass(24, queue);
  await test.settled(queue);
  await test.settle();
  await test.expectState("complete", two);
});

it("is short of 7 spans that the backend of an export rejects, until a retry delivers them", async () => {
  const test = await start({ isDelivered: false });
  const backend = await startOtlpBackend();
  onTestFinished(backend.close);
  const env = { SVC_DATABASE_URL: test.database.url, SVC_EXPORT_ENDPOINT: backend.httpUrl };
  // A partial success that rejects seven spans: "too old".
  const partial = Uint8Array.of(10, 11, 8, 7, 18, 7, ...new TextEncoder().encode("too old"));
  backend.answer = ({ signal }) => (signal === "traces" ? { body: partial } : "accept");
  const { queue } = test.openForwarded();
  await test.add(queue, 20);
  const payload = traceRequest(Array.from({ length: 12 }, (_, index) => `span ${index}`));
  await queue.append([
    { kind: "otel_span", observedAtMs: 0, source: "otlp", attributes: {}, payload },
  ]);
  await test.sendHour(queue, 0);
  await test.pastGrace(two, queue);
  await test.expectState("undelivered", two);

  const running = startProgram("functions/main.ts", ["export"], env);
  onTestFinished(async () => void (await stopProgram(running)));
  const settledTo = (state: object) =>
    eventually(async () => {
      await test.settle();
      expect(await test.stateAt(two)).toEqual(state);
    });
  const shortages = [{ kind: "export_rejected_items", count: 7 }];
  await settledTo({ state: "short", shortages });
  backend.answer = () => "accept";
  const retry = startProgram("functions/main.ts", ["export", "retry-dead-letters"], env);
  expect(await retry.exited).toBe(0);
  await settledTo({ state: "complete", shortages: [] });

  await test.sendHour(queue, 0);
  await test.pastGrace(two + hourMs, queue);
  const corrected = `complete hour=${named(two)} accepted=21 stored=21 delivered=default`;
  expect(await test.linesAt(two + hourMs)).toContain(corrected);
});

/** What is said of an hour: its state, the statement, and the relation of the chat. */
const saidOf = async (
  { sql, stateAt, linesAt }: Awaited<ReturnType<typeof start>>,
  hour: number,
) => ({
  ...(await stateAt(hour)),
  line: (await linesAt(hour))[0],
  chat: [
    ...(await sql`select state, short_of from chat.incomplete_hours where hour = ${new Date(hour).toISOString()}::timestamptz`),
  ],
});
const unknown = {
  state: "short",
  shortages: [{ kind: "unknown", count: null }],
  line: expect.stringMatching(/^short .*short=unknown/),
  chat: [{ state: "short", short_of: "unknown" }],
};
const late = {
  state: "late",
  shortages: [],
  line: expect.stringMatching(/^late/),
  chat: [{ state: "late", short_of: null }],
};

it("L1: is late while a queue is gone before its first account, and short once an admin closes that", async () => {
  const test = await start();
  const lost = test.open();
  const { queueId } = lost;
  const stop = test.forward(lost);
  await test.send(lost, 20);
  await stop();
  await lost.close();
  await rm(test.dir, { recursive: true });
  const queue = test.open({ entropy: createSeededEntropy(2) });
  test.forward(queue);
  await test.sendHour(queue, 10);
  await test.pass(14, queue);
  await test.send(queue, 1);
  await test.pastGrace(two, queue);
  expect(await saidOf(test, two)).toEqual(late);
  const now = new Date(test.clock.now());
  await endQueue(
    test.connection.db,
    { hostId: accountingHost, queueId },
    { endedAt: now, ending: "closed" },
    now,
  );
  await test.pass(1, queue);
  await test.settle();
  expect(await test.stateAt(two)).toEqual({ state: unknown.state, shortages: unknown.shortages });
});

it("L3: is short of what nobody knows after a disk went back, however much its successor states", async () => {
  const test = await start();
  const { queue, stop } = test.openForwarded();
  await test.send(queue, 20);
  const copied = await test.copy();
  await rm(join(copied, "queue.lock"), { force: true });
  await test.send(queue, 7);
  await stop();
  await test.add(queue, 81);
  await queue.close();
  const back = test.open({ entropy: createSeededEntropy(2) }, copied);
  test.forward(back);
  await test.sendHour(back, 10);
  await test.pastGrace(two, back);
  await test.expectState("silent", two);
  // The copied queue is not seen again.
  await test.clock.advance(dayMs);
  await test.settle();
  expect(await test.stateAt(two)).toEqual({ state: unknown.state, shortages: unknown.shortages });
});

it("L4: is short of what nobody knows when its host is revoked with unsent records", async () => {
  const test = await start();
  const { queue, stop } = test.openForwarded();
  await test.send(queue, 20);
  await stop();
  await test.add(queue, 30);
  await test.pass(30, queue);
  await test.sql`update collector_identity set revoked_at = ${new Date(test.clock.now()).toISOString()}`;
  await test.pastGrace(two, queue);
  expect(await saidOf(test, two)).toEqual(unknown);
});

it("L5: is short of the lines that a rotation deleted before they were stored", async () => {
  const test = await start();
  const { queue } = test.openForwarded();
  const files = createTestFiles(queue);
  files.write(1, 20);
  await files.start();
  await eventually(() => expect(queue.lastSequence).toBe(20));
  // The queue has no room from now on.
  files.storeBy(async (records, options) => {
    if ("count" in records && records.count > 0)
      await new Promise((_, reject) => {
        const stop = () => reject(new Error("stopping"));
        if (options?.signal?.aborted) stop();
        options?.signal?.addEventListener("abort", stop);
      });
    return queue.append(records, options);
  });
  files.write(21, 30);
  await settle();
  await files.source?.stop();
  unlinkSync(files.log());
  files.write(31, 35);
  files.storeBy(queue.append);
  await files.start();
  await eventually(() => expect(queue.stats().fileGapBytes).toBe(10 * "line 21\n".length));
  await files.source?.stop();
  await test.sendHour(queue, 0);
  await test.pastGrace(two, queue);
  expect(await saidOf(test, two)).toEqual({
    state: "short",
    shortages: [{ kind: "file_gap", count: 80 }],
    // Besides, nobody knows what came and went while it was stopped.
    line: "short accepted=25 stored=25 file_gap_bytes=80 file_gaps=2 short=file_gap delivered=backend",
    chat: [{ state: "short", short_of: "file_gap" }],
  });
});

it("is not accounted by a core that takes no accounts", async () => {
  const test = await start({ takesAccounts: false });
  const { queue } = test.openForwarded();
  await test.send(queue, 10);
  await test.pastGrace(two, queue);
  await test.expectState("not_accounted", two);
  expect(queue.accounts.pendingThrough()).toBe(10);
});
