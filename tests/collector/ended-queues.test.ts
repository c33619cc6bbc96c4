import { writeFileSync } from "node:fs";
import { cp, rm } from "node:fs/promises";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { isUsable, loadConfig } from "#collector/config/load-config.ts";
import { superviseCollector } from "#collector/runtime/supervisor.ts";
import type { SourceDependencies } from "#collector/sources/source.ts";
import { listQueues } from "#functions/store/ingest/queues.ts";
import { systemClock } from "#kit/clock.ts";
import { systemEntropy } from "#kit/entropy.ts";
import { untraced } from "#kit/tracing/tracer.ts";
import { createTestCollectorEnv } from "../fakes/collector-env.ts";
import { createTestLog } from "../fakes/log.ts";
import { eventually } from "../support/eventually.ts";
import { openTestQueue } from "../support/queue.ts";
import {
  accountingHost,
  appendTexts,
  numberedTexts,
  startAccountingHost,
} from "./support/accounting-host.ts";
import { runCollector } from "./support/collector-command.ts";
import { createEnrolledHost } from "./support/enrolled-host.ts";

/* How the queues of a collector end, against core's real listener and database. */

const start = async ({ isConnected = true }: { isConnected?: boolean } = {}) => {
  const test = await startAccountingHost({ startMs: Date.now() });
  const endpoint = `localhost:${isConnected ? test.core.port : 9}`;
  const host = await createEnrolledHost({ ca: test.ca, identity: accountingHost, endpoint });
  const queues = async () =>
    (await listQueues(test.connection.db, accountingHost)).map(({ queueId, ending, endedAt }) => ({
      queueId,
      ending,
      isOpen: endedAt === null,
    }));
  const stored = async () => {
    const [row] = await test.connection.db.execute(
      "select coalesce(sum(envelopes), 0)::int as envelopes from ingest_block",
    );
    return row?.envelopes ?? 0;
  };
  const retire = async () => {
    const env = { ...createTestCollectorEnv(), clock: systemClock };
    const { code, out } = await runCollector(["retire", "--config", host.config, "--json"], env);
    return { code, json: JSON.parse(out) };
  };
  /** Runs a collector with one source that appends so many records; returns what stops it. */
  const run = async (count: number, onLoaded: () => void = () => undefined) => {
    const env = { clock: systemClock, entropy: systemEntropy, effectiveUid: 1000, variables: {} };
    const loaded = await loadConfig(host.config, env);
    if (!isUsable(loaded)) throw new Error(JSON.stringify(loaded.errors));
    onLoaded();
    const facts = {
      bootId: "ab".repeat(16),
      version: "0",
      commit: "",
      hostname: "",
      platform: "",
      startedAt: 0,
    };
    const stop = new AbortController();
    const log = { ...createTestLog(), reload: () => undefined };
    const createSource = (_: unknown, { append }: SourceDependencies) => ({
      name: "lines",
      start: async () => void (await appendTexts({ append } as never, numberedTexts(count))),
      stop: async () => undefined,
    });
    const done = superviseCollector(
      { loaded, env, facts, log, tracer: untraced, createSource },
      stop.signal,
    );
    return {
      log,
      stop: () => {
        stop.abort();
        return done;
      },
    };
  };
  const configure = (buffer: string, more = "sources: [{type: file, include: [/nowhere/*]}]\n") =>
    writeFileSync(
      host.config,
      host.configText.replace("buffer: {dir: data}", `buffer: ${buffer}`) + more,
    );
  return { ...test, host, queues, stored, retire, run, configure };
};

it("end by retire, which forwards what they have, and a later start has another one", async () => {
  const { host, queues, retire, accounts } = await start();
  const data = join(host.dir, "data");
  const queue = openTestQueue(data, { entropy: systemEntropy });
  const queueId = queue.queueId.toHex();
  await appendTexts(queue, numberedTexts(30));
  await queue.close();
  expect(await retire()).toEqual({ code: 0, json: { ok: true } });
  expect(await queues()).toEqual([{ queueId, ending: "ended", isOpen: false }]);
  expect((await accounts()).reduce((sum, { stored }) => sum + stored, 0)).toBe(30);
  const next = openTestQueue(data, { entropy: systemEntropy });
  expect(next.queueId.toHex()).not.toBe(queueId);
  await next.close();
  expect(await retire()).toEqual({ code: 0, json: { ok: true } });
  expect((await accounts()).map(({ refused, missing }) => refused ?? missing)).not.toContain(
    "queue_ended",
  );
  expect((await queues()).every(({ isOpen }) => !isOpen)).toBe(true);
});

it("do not end by retire while records are left, or a collector runs", async () => {
  const { host, queues, retire } = await start({ isConnected: false });
  const queue = openTestQueue(join(host.dir, "data"), { entropy: systemEntropy });
  await appendTexts(queue, numberedTexts(3));
  expect(await retire()).toMatchObject({ code: 1, json: { error: { code: "queue_locked" } } });
  await queue.close();
  const { code, json } = await retire();
  expect([code, json.error.code]).toEqual([1, "queue_unsent"]);
  expect(json.error.message).toContain("core lacks 3 records");
  expect(await queues()).toEqual([]);
});

it.each([
  [
    "ends with buffer.ephemeral",
    "{dir: data, ephemeral: true}",
    [{ ending: "ended", isOpen: false }],
  ],
  ["does not end without", "{dir: data}", [{ ending: null, isOpen: true }]],
])("a stop %s", async (_, buffer, expected) => {
  const { configure, run, queues, accounts, stored } = await start();
  configure(buffer);
  const { stop } = await run(20);
  await eventually(async () => expect(await stored()).toBe(20));
  await stop();
  expect(await queues()).toMatchObject(expected);
  expect((await accounts()).reduce((sum, { stored }) => sum + stored, 0)).toBe(20);
});

it("the queue of a folder ends when the collector moves to another", async () => {
  const { configure, run, queues } = await start();
  configure("{dir: data}");
  const { stop } = await run(20);
  await eventually(async () => expect(await queues()).toHaveLength(1));
  configure("{dir: elsewhere}");
  await eventually(async () =>
    expect(await queues()).toMatchObject([
      { ending: null, isOpen: true },
      { ending: "ended", isOpen: false },
    ]),
  );
  await stop();
});

it("a queue that is imported into another ends by that", async () => {
  const { host, queues, configure, run, accounts, open, forward, drained, dir } = await start();
  const old = open();
  const left = old.queueId.toHex();
  const stopForwarding = forward(old);
  await appendTexts(old, numberedTexts(5));
  await drained(old);
  await stopForwarding();
  await appendTexts(old, numberedTexts(7));
  await old.close();
  const folder = join(host.dir, "old");
  await cp(dir, folder, { recursive: true });
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const env = createTestCollectorEnv({ now: Date.now() });
  configure("{dir: data}");
  const importing = ["queue", "import", folder, "--config", host.config];
  expect(await runCollector(importing, env)).toMatchObject({ code: 0 });
  const { stop } = await run(1);
  await eventually(async () =>
    expect((await queues()).find(({ queueId }) => queueId === left)).toMatchObject({
      ending: "succeeded",
      isOpen: false,
    }),
  );
  await stop();
  expect((await accounts()).reduce((sum, { stored }) => sum + stored, 0)).toBe(8);
});
