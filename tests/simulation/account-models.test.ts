/** Holds the models that accounts run on to PostgreSQL: the same calls on both have the same results, and leave the same rows. */
import { create } from "@bufbuild/protobuf";
import fc from "fast-check";
import type { Client } from "pg";
import { expect, it } from "vitest";
import { encodeAccountBody } from "#collector/queue/seal-accounts.ts";
import {
  type AccountCore,
  createAccountAcceptor,
} from "#functions/domain/telemetry/accept-account.ts";
import { createQueueOpener, type QueueOpener } from "#functions/ingest/open-queue.ts";
import { createPostgresRegister } from "#functions/ingest/postgres-sink.ts";
import { zstdCodec } from "#functions/node/ingest/zstd-codec.ts";
import { commitBatch, openCommitClient } from "#functions/store/ingest/commit-batch.ts";
import { hourMs } from "#kit/clock.ts";
import { accountPayload } from "#proto/completeness/account.ts";
import { OpenSchema } from "#proto/gen/svc/ingest/v1/ingest_pb.js";
import { createTestClock } from "../fakes/clock.ts";
import { createSeededEntropy } from "../fakes/entropy.ts";
import { useTestDatabase } from "../support/database.ts";
import { testRun } from "../support/stored-envelopes.ts";
import { createAccountStatements } from "./account-statements.ts";
import { connectCommitClient } from "./commit-client.ts";
import { createDatabaseServer } from "./database.ts";
import { connectExportDatabase } from "./export-database.ts";
import { hostCryptography, keyOfHost } from "./host-keys.ts";
import { createModelRegister } from "./register.ts";
import type { Values } from "./sql-expressions.ts";
import { inWorld } from "./world.ts";

interface AccountStep {
  act: "commit" | "open" | "account" | "repeat" | "forge";
  count: number;
  /** Of the sequences that a commit consumes. */
  unstored: number;
}
const accountStep: fc.Arbitrary<AccountStep> = fc.record({
  act: fc.constantFrom("commit", "commit", "open", "account", "repeat", "forge"),
  count: fc.integer({ min: 0, max: 4 }),
  unstored: fc.integer({ min: 0, max: 2 }),
});

const host = keyOfHost("spiffe://sim/host");
const { identity: hostId } = host;
/** Another one for each list of steps: the audit log keeps what was lost of those before. */
let queueId = new Uint8Array(16);
const clock = createTestClock();
const needs = { clock, entropy: createSeededEntropy(1), log: { warn: () => undefined } };

/** What the steps run on. */
interface Side extends Pick<AccountCore, "db"> {
  committer: Client;
  opener: QueueOpener;
}

/** Runs the steps, one after the other, and returns what each resolved with. */
const outcomesOf = async ({ db, committer, opener }: Side, steps: readonly AccountStep[]) => {
  const accept = createAccountAcceptor({ ...needs, db, cryptography: hostCryptography });
  const sessions: Uint8Array<ArrayBuffer>[] = [];
  const sent: { body: Uint8Array; signature: Uint8Array; earlierAreLost: boolean }[] = [];
  let cursor = 0;
  let accounted = 0;
  const run = async ({ act, count, unstored }: AccountStep) => {
    if (act === "open") {
      const sessionId = new Uint8Array(16).fill(sessions.length + 1);
      const claims = {
        hostId,
        queueId,
        sessionId,
        previousSessionIds: sessions.slice(),
        sentThrough: 1_000n,
      };
      const opened = await opener.open(
        create(OpenSchema, { ...claims, ackedThrough: BigInt(cursor + unstored) }),
      );
      sessions.push(sessionId);
      cursor = Number(opened.cursor);
      return { cursor };
    }
    if (act === "commit") {
      const from = cursor;
      cursor += count + unstored;
      const run = testRun(
        Array.from({ length: count }, (_, index) => ({
          sequence: BigInt(from + index + 1),
          kind: "log_line",
          source: "file",
          payload: Buffer.from(`${index}`),
        })),
      );
      const rejected = Array.from({ length: unstored }, (_, index) =>
        BigInt(from + count + index + 1),
      );
      const frame = {
        hostId,
        queueId,
        previousSequence: BigInt(from),
        lastSequence: BigInt(cursor),
        receivedAt: 1_000,
      };
      const isDiscarded = count % 2 === 1;
      const consumed = {
        rejected: isDiscarded ? [] : rejected,
        discarded: isDiscarded ? rejected : [],
      };
      const outcomes = await commitBatch(committer, [{ ...frame, run, unstored: consumed }], {
        codec: zstdCodec,
        now: () => 1_000,
      });
      return outcomes;
    }
    const last = sent.at(-1);
    const caller = {
      identity: hostId,
      fingerprintSha256: host.fingerprintSha256,
      der: host.certificate,
    };
    if (act === "repeat" && last) return accept(caller, last);
    const records = cursor + unstored - accounted;
    const times = { fromMs: clock.now() - hourMs, toMs: clock.now() - hourMs };
    const body = encodeAccountBody(
      {
        ...times,
        firstSequence: accounted + 1,
        lastSequence: accounted + records,
        stopped: false,
        atLeast: false,
        accepted:
          records === 0 ? [] : [{ kind: "log_line", source: "file", records, bytes: records }],
        refused: [],
        expired: 0,
        damaged: 0,
        fileGapBytes: 0,
        waitedMs: 0,
        ackedBeforeThrough: 0,
      },
      {
        hostId,
        queueId,
        number: sent.length + 1,
        previousQueueId: new Uint8Array(),
        previousSha256: last
          ? Uint8Array.fromHex(String(hostCryptography.sha256Hex(accountPayload(last.body))))
          : new Uint8Array(),
        certificateSha256: Uint8Array.fromHex(host.fingerprintSha256),
      },
    );
    const signature = host.sign(accountPayload(body));
    if (act === "forge")
      return accept(caller, { body, signature: new Uint8Array(64), earlierAreLost: false });
    const account = { body, signature, earlierAreLost: count === 0 };
    const answer = await accept(caller, account);
    // What a host has sent, it does not send again under another number.
    sent.push(account);
    accounted += records;
    cursor = Math.max(cursor, accounted);
    return answer;
  };
  const outcomes: unknown[] = [];
  for (const step of steps)
    outcomes.push(
      await run(step).catch((error: unknown) =>
        error instanceof Error ? error.message : JSON.stringify(error),
      ),
    );
  return outcomes;
};

const byPlace = (one: Values, other: Values) =>
  Number(one.number) - Number(other.number) ||
  Number(other.is_linked) - Number(one.is_linked) ||
  (String(one.refused ?? "") < String(other.refused ?? "") ? -1 : 1);
const counts = [
  "range_stored",
  "range_rejected",
  "range_discarded",
  "range_lost",
  "counted_through",
];
const columns = [
  "stored",
  "rejected",
  "discarded",
  "lost",
  "missing",
  "accepted",
  "number",
  "last_sequence",
];
const flags = ["is_checked", "is_linked", "follows_gap"];

it("the model decides on accounts as PostgreSQL does", async () => {
  const database = await useTestDatabase();
  const committer = await openCommitClient(database.url);
  const { db, sql } = database.connect();
  const observe = { gap: () => undefined, implausibleGap: () => undefined };
  const cursorsOf = () =>
    sql.unsafe(
      `select cursor::int, encode(range_digest, 'hex') as digest, ${counts.map((name) => `${name}::int`).join(", ")} from ingest_cursor`,
    );
  const accountsOf = () =>
    sql.unsafe(
      `select refused, encode(range_digest, 'hex') as digest, ${flags.join(", ")}, ${columns.map((name) => `${name}::int`).join(", ")} from ingest_account order by number, is_linked desc, coalesce(refused, '') collate "C"`,
    );
  const volumesOf = () =>
    sql.unsafe(
      `select concat_ws(' ', host_id, day, kind, source) as name, envelopes::int, payload_bytes::int from volume_source order by day`,
    );
  const property = fc.asyncProperty(
    fc.array(accountStep, { minLength: 1, maxLength: 12 }),
    async (steps) => {
      queueId = needs.entropy.bytes(16);
      await sql.unsafe(
        "truncate ingest_cursor; truncate ingest_block; truncate ingest_account; truncate volume_source",
      );
      const opener = createQueueOpener({
        ...needs,
        observe,
        register: createPostgresRegister({ ...needs, db }),
      });
      const expected = await outcomesOf({ db, committer, opener }, steps);
      const rows = {
        cursors: [...(await cursorsOf())],
        accounts: [...(await accountsOf())],
        volumes: [...(await volumesOf())],
      };
      const modelled = await inWorld(1, async (world) => {
        const server = createDatabaseServer(world);
        const client = world.process("core");
        const shared = { server, client, delays: { travelMs: [0, 1], commitMs: [0, 1] } as const };
        const run = async () =>
          outcomesOf(
            {
              db: connectExportDatabase(world, shared, createAccountStatements(server)),
              committer: await connectCommitClient(world, {
                ...shared,
                core: client,
                onOpened: () => undefined,
              }),
              opener: createQueueOpener({
                ...needs,
                observe,
                register: createModelRegister(world, shared),
              }),
            },
            steps,
          );
        const ran = run();
        await world.runUntil(3_600_000);
        const hex = (digest: unknown) => (digest instanceof Uint8Array ? digest.toHex() : null);
        return {
          outcomes: await ran,
          cursors: [...server.tables.cursors.values()].map((row) => ({
            cursor: row.cursor,
            digest: hex(row.rangeDigest),
            range_stored: row.rangeStored,
            range_rejected: row.rangeRejected,
            range_discarded: row.rangeDiscarded,
            range_lost: row.rangeLost,
            counted_through: row.countedThrough,
          })),
          accounts: server.tables.accounts.toSorted(byPlace).map((row) => ({
            refused: row.refused,
            digest: hex(row.range_digest),
            ...Object.fromEntries(flags.map((name) => [name, row[name]])),
            ...Object.fromEntries(columns.map((name) => [name, Number(row[name])])),
          })),
          volumes: [...server.tables.volumes].map(([name, { envelopes, payloadBytes }]) => ({
            name: name.replaceAll("\0", " "),
            envelopes,
            payload_bytes: payloadBytes,
          })),
        };
      });
      expect(modelled).toEqual({ outcomes: expected, ...rows });
    },
  );
  try {
    await fc.assert(property, { numRuns: 40 });
  } finally {
    await committer.end();
  }
});
