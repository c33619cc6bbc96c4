import { createHash, createPrivateKey } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "vitest";
import { createConnector } from "../../collector/forward/connection.ts";
import { createForwarder } from "../../collector/forward/forwarder.ts";
import { signBytes } from "../../collector/management/signed-request.ts";
import type { AccountSigner } from "../../collector/queue/account.ts";
import type { Queue } from "../../collector/queue/queue.ts";
import { createAccountRegister } from "../../functions/account-register.ts";
import { createPostgresSink, type PostgresSinkNeeds } from "../../functions/ingest/postgres-sink.ts";
import type { Sink } from "../../functions/ingest/sink.ts";
import { createNodeCryptography } from "../../functions/node/node-cryptography.ts";
import type { QueueName } from "../../functions/store/ingest/cursors.ts";
import { hourMs, systemClock } from "../../kit/clock.ts";
import { systemEntropy } from "../../kit/entropy.ts";
import { createTestCa } from "../../scripts/lab/ca/test-pki.ts";
import { createTestClock } from "../fakes/clock.ts";
import { createTestLog } from "../fakes/log.ts";
import { createTestDatabase } from "./database.ts";
import { eventually } from "./eventually.ts";
import { startTestIngest } from "./ingest.ts";
import { openTestQueue } from "./queue.ts";

const hostId = "spiffe://fleet.test/host-1";

/** What a test with accounts ends, in reverse. */
export type TestEnds = (() => Promise<unknown>)[];

/** Starts core's listener on a database, and what makes the queues of a collector that sends it their accounts; all of it is added to `ends`. */
export const startAccountDeployment = async (
  ends: TestEnds,
  {
    takesAccounts = true,
    config = {},
    sink: openSink,
  }: { takesAccounts?: boolean; config?: object; sink?: (needs: PostgresSinkNeeds) => Promise<Sink> } = {},
) => {
  const database = await createTestDatabase();
  ends.push(() => database.drop());
  const { db, sql } = database.connect();
  const [notBefore, notAfter] = [new Date(Date.now() - hourMs), new Date(Date.now() + 24 * hourMs)];
  const ca = await createTestCa({ notBefore, notAfter });

  /** Starts a core, whose accounts have the books of its sink. */
  const startCore = async () => {
    const opened = Promise.withResolvers<Sink>();
    const open = async (needs: PostgresSinkNeeds) => {
      const sink = await (openSink?.(needs) ?? createPostgresSink(needs));
      opened.resolve(sink);
      return sink;
    };
    const books = openSink && {
      countedOf: async (queue: QueueName) => (await (await opened.promise).countedOf?.(queue)) ?? null,
    };
    const register = createAccountRegister(
      { ...{ db, clock: systemClock, entropy: systemEntropy }, cryptography: createNodeCryptography() },
      books,
    );
    const needs = { accounts: takesAccounts ? register : undefined };
    const core = await startTestIngest({ ...{ database, ca, config, needs }, sink: open });
    ends.push(() => core.close());
    return core;
  };
  const core = await startCore();
  const dir = await mkdtemp(join(tmpdir(), "collector-accounts-"));
  ends.push(() => rm(dir, { recursive: true }));
  const client = await core.client({ uri: hostId });
  const clock = createTestClock(Math.floor(Date.now() / hourMs - 48) * hourMs);
  const key = createPrivateKey(client.key);
  const signer: AccountSigner = {
    hostId,
    certificateSha256: createHash("sha256").update(client.der).digest(),
    sign: (payload) => signBytes(key, payload),
  };
  const log = createTestLog();
  const forward = (queue: Queue, { port } = core) => {
    const forwarder = createForwarder({
      connect: createConnector(
        `127.0.0.1:${port}`,
        { cert: client.cert, key: client.key, ca: core.caPem, serverName: "localhost" },
        systemClock,
      ),
      ...{ hostId, queue, entropy: systemEntropy, log, maxInFlightFrames: 8, compression: "gzip" as const },
      batch: { maxEnvelopes: 50, maxBytes: 1_048_576, lingerMs: 1 },
      clock: { ...systemClock, sleep: (ms, signal) => systemClock.sleep(Math.min(ms, 20), signal) },
    });
    const stop = new AbortController();
    const running = forwarder.run(stop.signal);
    const end = async () => {
      stop.abort(new Error("stop"));
      await running;
    };
    ends.push(end);
    return end;
  };
  const open = (options: Parameters<typeof openTestQueue>[1] = {}, at = dir) => {
    const queue = openTestQueue(at, { clock: { ...clock, sleep: systemClock.sleep }, ...options });
    ends.push(() => queue.close());
    queue.accounts.seal(signer);
    return queue;
  };
  /** Lets an hour pass for the queue, as keepAccounts does. */
  const passHour = async (queue: Queue, by: AccountSigner = signer) => {
    queue.accounts.seal(by);
    for (let minutes = 0; minutes < 60; minutes++) {
      await clock.advance(60_000);
      queue.accounts.observe();
    }
  };
  const accounts = () => sql`
    select number::int, refused, is_linked, is_stopped, is_checked, follows_gap, accepted::int, stored::int, rejected::int, discarded::int,
      lost::int, missing::int, sink, encode(range_digest, 'hex') as digest, from_at, to_at from ingest_account order by received_at, number`;
  const settled = (queue: Queue) => eventually(() => expect(queue.accounts.pendingThrough()).toBeUndefined());
  return { core, startCore, sql, open, forward, clock, passHour, accounts, settled, signer, log, dir };
};

/** Appends records of these texts. */
export const appendTexts = (queue: Queue, texts: readonly string[], kind = "log_line") =>
  queue.append(
    texts.map((text) => ({
      ...{ kind, observedAtMs: 0, source: "file", attributes: {} },
      payload: new TextEncoder().encode(text),
    })),
  );

/** Returns so many texts. */
export const numberedTexts = (count: number) => Array.from({ length: count }, (_, index) => `line ${index}`);
