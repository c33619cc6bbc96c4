import { cp, rm } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from "vitest";
import type { Queue } from "#collector/queue/queue.ts";
import { findHostAccounts } from "#functions/store/completeness/hour-facts.ts";
import { endAbandonedQueues, listQueues } from "#functions/store/ingest/queues.ts";
import { hourMs } from "#kit/clock.ts";
import { canStartNats, type RunningNats, startNats } from "#scripts/lab/nats-servers.ts";
import { createSeededEntropy } from "../fakes/entropy.ts";
import { eventually } from "../support/eventually.ts";
import {
  natsSinkOn,
  type Publish,
  readStream,
  streamSettings,
} from "../support/ingest/nats-sink.ts";
import {
  accountingHost,
  appendTexts as append,
  startAccountingHost,
  numberedTexts as texts,
} from "./support/accounting-host.ts";

/* The accounts of a collector whose envelopes a JetStream stream stores, which shares no transaction with them. */

const canStart = await canStartNats();
/** Adds so many records, and waits until core has them. */
const send = async (
  test: Awaited<ReturnType<typeof startAccountingHost>>,
  queue: Queue,
  count: number,
) => {
  await append(queue, texts(count));
  await test.drained(queue);
};
const queueStream = "SVC_INGEST_QUEUES";

describe.skipIf(!canStart)("accounts of what a stream stores", () => {
  let nats: RunningNats;
  beforeAll(async () => {
    nats = await startNats();
  });
  afterAll(() => nats.stop());
  beforeEach(async () => {
    for await (const { config } of nats.manager.streams.list())
      await nats.manager.streams.delete(config.name);
  });
  const start = async ({
    config = {},
    around,
  }: {
    config?: object;
    around?: (publish: Publish, ...message: Parameters<Publish>) => void;
  } = {}) => {
    return startAccountingHost({ config, sink: natsSinkOn(nats, { ...(around && { around }) }) });
  };

  it("are settled once the stream has acknowledged their range, and say that they speak of it", async () => {
    const test = await start({ config: { discardSpanNames: ["health"] } });
    const queue = test.open();
    test.forward(queue);
    for (let batch = 0; batch < 5; batch++)
      await append(queue, texts(60), batch % 2 === 0 ? "log_line" : "otel_metric");
    await append(queue, ["no kind"], "No Kind");
    await test.pass(60, queue);
    await append(queue, texts(3));
    await test.settled(queue);
    await test.pass(60, queue);
    await test.settled(queue);
    const settled = {
      refused: null,
      sink: "nats",
      is_checked: true,
      missing: 0,
      lost: 0,
      digest: null,
    };
    expect(await test.accounts()).toMatchObject([
      { ...settled, number: 1, accepted: 301, stored: 300, rejected: 1 },
      { ...settled, number: 2, accepted: 3, stored: 3, rejected: 0 },
    ]);
    expect((await readStream(nats)).flatMap(({ sequences }) => sequences)).toHaveLength(303);
    const { created, state } = await nats.manager.streams.info(streamSettings.stream);
    const ends = await test.connection
      .sql`select stream, stream_end::int as end from ingest_account order by number`;
    expect(ends.map(({ stream }) => stream)).toEqual(
      Array(2).fill(`${streamSettings.stream} ${created}`),
    );
    expect(ends[1]?.end).toBe(state.last_seq);
    expect(ends[0]?.end).toBeLessThan(state.last_seq);
  });

  it("count on through another core, and through a frame of which a part was stored and not acknowledged", async () => {
    let isCut = false;
    const test = await start({
      around: (publish, subject, payload, options) => {
        publish(
          subject,
          payload,
          isCut && subject.startsWith("svc.ingest.otel_log") ? { ...options, reply: "" } : options,
        );
      },
    });
    const queue = test.open();
    const end = test.forward(queue);
    await send(test, queue, 10);
    isCut = true;
    // Stored, and never known to be by this core.
    await Promise.all([
      append(queue, texts(4)),
      append(queue, texts(4), "otel_log"),
      append(queue, ["bad"], "No Kind"),
    ]);
    await eventually(async () =>
      expect((await readStream(nats)).flatMap(({ sequences }) => sequences)).toHaveLength(18),
    );
    await end();
    isCut = false;
    const other = await test.startCore();
    test.forward(queue, other);
    await test.sendHour(queue, 5);
    expect(await test.accounts()).toMatchObject([
      { number: 1, is_checked: true, accepted: 24, stored: 23, rejected: 1, missing: 0 },
    ]);
  });

  it("L1: bind hours from when the stream opened their queue, until a copy of it sends", async () => {
    const test = await start();
    const { db } = test.connection;
    const queue = test.open();
    const end = test.forward(queue);
    await send(test, queue, 10);
    const found = () => listQueues(db, accountingHost);
    await eventually(async () => expect(await found()).toMatchObject([{ endedAt: null }]));
    await end();
    const copied = `${test.dir}-copy`;
    await cp(test.dir, copied, { recursive: true });
    onTestFinished(() => rm(copied, { recursive: true }));
    await rm(join(copied, "queue.lock"), { force: true });
    const endOriginal = test.forward(queue);
    await send(test, queue, 7);
    await endOriginal();
    test.forward(test.open({ entropy: createSeededEntropy(2) }, copied));
    await eventually(async () => expect(await found()).toHaveLength(2));
    await endAbandonedQueues(db, {
      lostBefore: new Date(0),
      now: new Date(Date.now() + 4 * hourMs),
    });
    expect(await found()).toMatchObject([{ endedAt: null }, { ending: "forked" }]);
  });

  it("name what a restored stream lost, of their own hour alone", async () => {
    const test = await start();
    const queue = test.open();
    const end = test.forward(queue);
    await test.sendHour(queue, 40);
    await send(test, queue, 10);
    await end();
    // As it is after a restore from a backup of before.
    for (const name of [streamSettings.stream, queueStream]) {
      const { config } = await nats.manager.streams.info(name);
      await nats.manager.streams.delete(name);
      await nats.manager.streams.add(config);
    }
    test.forward(queue);
    await test.sendHour(queue, 7);
    await test.sendHour(queue, 2);
    expect(
      (await test.accounts()).map((row) => [
        row.accepted,
        row.stored,
        row.lost,
        row.missing,
        row.is_checked,
      ]),
    ).toEqual([
      [40, 40, 0, 0, true],
      [17, 7, 10, 0, true],
      [2, 2, 0, 0, true],
    ]);
    const [gap] = await test.connection.sql`select records_max::int as lost from ingest_gap`;
    expect(gap).toEqual({ lost: 50 });
    // The settled account keeps its counts; where the hour is decided, the lost range is taken off it.
    const range = { fromMs: 0, toMs: Date.now() + hourMs };
    const all = await findHostAccounts(test.connection.db, accountingHost, range);
    expect(all.map(({ accepted, stored, lost }) => [accepted, stored, lost])).toEqual([
      [40, 0, 40],
      [17, 7, 10],
      [2, 2, 0],
    ]);
  });

  it("are not counted where an earlier version has stored a part, and are again from the next one on", async () => {
    const strip: (publish: Publish, ...message: Parameters<Publish>) => void = (
      publish,
      subject,
      payload,
      options,
    ) => {
      if (isEarlier) options?.headers?.delete("Svc-Totals");
      publish(subject, payload, options);
    };
    let isEarlier = true;
    const test = await start({ around: strip });
    const queue = test.open();
    const end = test.forward(queue);
    await send(test, queue, 10);
    await end();
    isEarlier = false;
    const other = await test.startCore();
    test.forward(queue, other);
    for (let hour = 0; hour < 2; hour++) await test.sendHour(queue, 5);
    expect(
      (await test.accounts()).map((row) => [row.accepted, row.is_checked, row.missing]),
    ).toEqual([
      [15, false, 0],
      [5, true, 0],
    ]);
  });

  it("give a restored database the accounts again that it lost, and find nothing missing", async () => {
    const test = await start();
    const queue = test.open();
    const end = test.forward(queue);
    for (const count of [10, 20, 30]) await test.sendHour(queue, count);
    await end();
    await test.connection.sql`delete from ingest_account where number > 1`;
    test.forward(queue);
    await test.sendHour(queue, 5);
    const rows = (await test.accounts()).toSorted((a, b) => a.number - b.number);
    expect(
      rows.map((row) => [
        row.number,
        row.accepted,
        row.stored,
        row.lost + row.missing,
        row.refused,
      ]),
    ).toEqual([
      [1, 10, 10, 0, null],
      [2, 20, 20, 0, null],
      [3, 30, 30, 0, null],
      [4, 5, 5, 0, null],
    ]);
  });
});
