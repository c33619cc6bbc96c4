import { createPrivateKey, hash } from "node:crypto";
import { expect, onTestFinished } from "vitest";
import { createConnector, createForwarder } from "#collector/forward/forwarder.ts";
import { signBytes } from "#collector/management/signed-request.ts";
import type { Queue } from "#collector/queue/queue.ts";
import type { AccountSigner } from "#collector/queue/seal-accounts.ts";
import { createPostgresSink, type PostgresSinkNeeds } from "#functions/ingest/postgres-sink.ts";
import type { Sink } from "#functions/ingest/sink.ts";
import { createAccountRegister } from "#functions/ingest-registers.ts";
import { createNodeCryptography } from "#functions/node/node-cryptography.ts";
import { type Clock, hourMs, systemClock } from "#kit/clock.ts";
import { systemEntropy } from "#kit/entropy.ts";
import { createTestCa } from "#scripts/lab/ca/test-pki.ts";
import { createTestClock, type TestClock } from "#tests/fakes/clock.ts";
import { createTestLog } from "#tests/fakes/log.ts";
import { createTestDatabase } from "#tests/support/database.ts";
import { eventually } from "#tests/support/eventually.ts";
import { startTestIngest, type TestIngest } from "#tests/support/ingest.ts";
import { newFolder } from "#tests/support/new-folder.ts";
import { openTestQueue } from "#tests/support/queue.ts";

/** The host of these tests. */
export const accountingHost = "https://fleet.example.test/dc-1/host-1";

/**
 * Starts core, and a host that begins with an hour two days ago. Core's clock is the machine's, and its sink PostgreSQL's, unless they are
 * given; accounts have the ranges of a sink that is given. All of it ends with the test.
 */
export const startAccountingHost = async ({
  takesAccounts = true,
  config = {},
  sink: openSink,
  startMs = Math.floor(Date.now() / hourMs - 48) * hourMs,
  coreClock = () => systemClock,
}: {
  takesAccounts?: boolean;
  config?: object;
  sink?: (needs: PostgresSinkNeeds) => Promise<Sink>;
  startMs?: number;
  coreClock?: (hosts: TestClock) => Clock;
} = {}) => {
  const clock = createTestClock(startMs);
  const cores = coreClock(clock);
  const database = await createTestDatabase();
  onTestFinished(() => database.drop());
  const connection = database.connect();
  const cryptography = createNodeCryptography();
  const ca = await createTestCa({
    notBefore: new Date(Date.now() - hourMs),
    notAfter: new Date(Date.now() + 24 * hourMs),
  });
  const startCore = async () => {
    const opened = Promise.withResolvers<Sink>();
    const sink = async (needs: PostgresSinkNeeds) => {
      const created = await (openSink?.(needs) ?? createPostgresSink(needs));
      opened.resolve(created);
      return created;
    };
    const register = createAccountRegister({
      db: connection.db,
      clock: cores,
      entropy: systemEntropy,
      cryptography,
    });
    const needs = { accounts: takesAccounts ? register : undefined, clock: cores };
    const started = await startTestIngest({ database, ca, config, needs, sink });
    onTestFinished(() => started.close());
    return started;
  };
  const core = await startCore();
  const dir = newFolder();
  const client = await core.client({ uri: accountingHost });
  const key = createPrivateKey(client.key);
  const signer: AccountSigner = {
    hostId: accountingHost,
    certificateSha256: hash("sha256", client.der, "buffer"),
    sign: (payload) => signBytes(key, payload),
  };
  const log = createTestLog();
  const pass = async (minutes: number, ...queues: readonly Queue[]) => {
    for (let minute = 0; minute < minutes; minute++) {
      await clock.advance(60_000);
      for (const queue of queues) queue.accounts.observe();
    }
  };
  return {
    database,
    connection,
    ca,
    core,
    /** Starts another core on the same database. */
    startCore,
    /** The host's clock. */
    clock,
    /** The folder of its queue. */
    dir,
    key,
    signer,
    log,
    open: (options: Parameters<typeof openTestQueue>[1] = {}, at: string = dir) => {
      const queue = openTestQueue(at, {
        clock: { ...clock, sleep: systemClock.sleep },
        ...options,
      });
      onTestFinished(() => queue.close());
      queue.accounts.seal(signer);
      return queue;
    },
    /** Forwards a queue to a core; returns what ends it. */
    forward: (queue: Queue, { port }: TestIngest = core) => {
      const forwarder = createForwarder({
        connect: createConnector(
          `127.0.0.1:${port}`,
          { cert: client.cert, key: client.key, ca: core.caPem, serverName: "localhost" },
          systemClock,
        ),
        hostId: accountingHost,
        queue,
        entropy: systemEntropy,
        log,
        maxInFlightFrames: 8,
        compression: "gzip" as const,
        batch: { maxEnvelopes: 50, maxBytes: 1_048_576, lingerMs: 1 },
        clock: {
          ...systemClock,
          sleep: (ms, signal) => systemClock.sleep(Math.min(ms, 20), signal),
        },
      });
      const stop = new AbortController();
      const running = forwarder.run(stop.signal);
      const end = async () => {
        stop.abort(new Error("stop"));
        await running;
      };
      onTestFinished(end);
      return end;
    },
    /** Lets minutes pass for queues, as keepAccounts does. */
    pass,
    /** The accounts that core has, in the order of their arrival. */
    accounts: async () => connection.sql`
      select number::int, refused, is_linked, is_stopped, is_checked, follows_gap, accepted::int, stored::int, rejected::int,
        discarded::int, lost::int, missing::int, sink, encode(range_digest, 'hex') as digest, from_at, to_at
      from ingest_account order by received_at, number`,
    /** Resolves once core has every account of a queue. */
    settled,
    /** Resolves once core has acknowledged every record of a queue. */
    drained: (queue: Queue) => eventually(() => expect(queue.stats().records).toBe(0)),
    /** Appends so many records, lets an hour pass, and resolves once core has the account of it. */
    sendHour: async (queue: Queue, count: number) => {
      await appendTexts(queue, numberedTexts(count));
      await pass(60, queue);
      await settled(queue);
    },
  };
};

const settled = (queue: Queue): Promise<void> =>
  eventually(() => expect(queue.accounts.pendingThrough()).toBe(undefined));

/** Appends records of these texts. */
export const appendTexts = (
  queue: Pick<Queue, "append">,
  texts: readonly string[],
  kind = "log_line",
): Promise<unknown> =>
  queue.append(
    texts.map((text) => ({
      kind,
      observedAtMs: 0,
      source: "file",
      attributes: {},
      payload: new TextEncoder().encode(text),
    })),
  );

/** Returns so many texts. */
export const numberedTexts = (count: number): string[] =>
  Array.from({ length: count }, (_, index) => `line ${index}`);
