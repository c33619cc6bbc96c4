/** Holds the models that exports run on to what they stand for: the same calls on both have the same results. */
import fc from "fast-check";
import type { Client } from "pg";
import { expect, it } from "vitest";
import { encodeLogs } from "#functions/export/export-requests.ts";
import { createPostgresSource } from "#functions/export/open-source.ts";
import { createOtlpHttpClient } from "#functions/export/otlp-http.ts";
import { createNodeObjectReader } from "#functions/node/ingest/read-objects.ts";
import { zstdCodec } from "#functions/node/ingest/zstd-codec.ts";
import type { Database } from "#functions/store/database/database.ts";
import { countDeadLetters, countSendingHosts } from "#functions/store/export/dead-letters.ts";
import { alignStoredCount, findExportLags } from "#functions/store/export/lag.ts";
import {
  acquireExportLease,
  createExportPosition,
  type ExportLease,
  moveExportPosition,
  noOutcome,
  readHorizon,
  releaseExportLease,
  renewExportLease,
} from "#functions/store/export/positions.ts";
import { readerSetup } from "#functions/store/export/read-envelopes.ts";
import { commitBatch, openCommitClient } from "#functions/store/ingest/commit-batch.ts";
import { destroyClient, openCopyClient } from "#functions/store/ingest/copy-transaction.ts";
import { systemClock } from "#kit/clock.ts";
import { useTestDatabase } from "../support/database.ts";
import { envelopesIn } from "../support/deliver-chunks.ts";
import { eventually } from "../support/eventually.ts";
import { startOtlpBackend } from "../support/ingest/otlp-backend.ts";
import { testRun } from "../support/stored-envelopes.ts";
import {
  answerOf,
  type BackendMood,
  createBackend,
  createBackendClient,
  recordsOf,
} from "./backend.ts";
import { connectCommitClient } from "./commit-client.ts";
import { createDatabaseServer } from "./database.ts";
import { connectExportDatabase, connectReader } from "./export-database.ts";
import { inWorld } from "./world.ts";

type Act =
  | "commit"
  | "acquire"
  | "acquire seen"
  | "renew"
  | "release"
  | "expire"
  | "move"
  | "reject"
  | "read";
interface ExportStep {
  act: Act;
  owner: "a" | "b";
  count: number;
}
const exportStep: fc.Arbitrary<ExportStep> = fc.record({
  act: fc.constantFrom(
    ...([
      "commit",
      "acquire",
      "acquire seen",
      "renew",
      "release",
      "expire",
      "move",
      "reject",
      "read",
    ] as const),
  ),
  owner: fc.constantFrom("a", "b"),
  count: fc.integer({ min: 1, max: 4 }),
});

/** What the steps run on. */
interface Side {
  db: Database;
  committer: Client;
  reader(): Promise<Client>;
  expireLease(): Promise<unknown>;
  /** Resolves once the horizon is behind all that is committed: on a server that others use, it may lag. */
  settled(lease: ExportLease): Promise<bigint>;
}

const queueId = new Uint8Array(16).fill(7);
const none = { ...noOutcome, passed: 0 };
const letterOf = (hostId: string, sequence: bigint) => ({
  envelope: {
    hostId,
    queueId,
    sequence,
    kind: "log_line",
    observedAt: null,
    receivedAt: 1_000_000n,
    source: "file",
    attributes: {},
    payload: Buffer.from("text"),
  },
  reason: "HTTP 400",
});

/** Runs the steps, one after the other, and returns what each resolved with or the name of its error. */
const outcomesOf = async (side: Side, steps: readonly ExportStep[]) => {
  const { db } = side;
  const leases = new Map<string, ExportLease>();
  let seenUntil: string | undefined;
  let sequence = 0;
  const run = async ({ act, owner, count }: ExportStep) => {
    const lease = leases.get(owner) ?? {
      name: "default",
      owner,
      epoch: 0,
      position: 0n,
      identity: null,
    };
    switch (act) {
      case "commit": {
        const from = sequence;
        sequence += count;
        const run = testRun(
          Array.from({ length: count }, (_, index) => ({
            sequence: BigInt(from + index + 1),
            kind: "log_line",
            source: "file",
            payload: Buffer.from(`line ${from + index + 1}`),
          })),
        );
        const frame = {
          hostId: "h",
          queueId,
          previousSequence: BigInt(from),
          lastSequence: BigInt(sequence),
          run,
        };
        return commitBatch(side.committer, [{ ...frame, receivedAt: 1_000 }], {
          codec: zstdCodec,
          now: () => 1_000,
        });
      }
      case "acquire":
      case "acquire seen": {
        const acquired = await acquireExportLease(db, "default", {
          owner,
          seenUntil: act === "acquire seen" ? seenUntil : undefined,
        });
        if (acquired.lease === null) seenUntil = acquired.heldUntil;
        else leases.set(owner, acquired.lease);
        return { epoch: acquired.lease?.epoch };
      }
      case "renew":
        return renewExportLease(db, lease, count > 2 ? `error ${count}` : null);
      case "release":
        return releaseExportLease(db, lease);
      case "expire":
        return void (await side.expireLease());
      case "move": {
        const position = await side.settled(lease);
        await moveExportPosition(db, lease, { ...none, passed: count, exported: count, position });
        // Whether that is further than before depends, on the real server, on what others have open there.
        return lease.position === position;
      }
      case "reject": {
        const deadLetters = [letterOf("h", 1n)];
        const dropped = [letterOf("it's", 2n), letterOf("it's", 3n)];
        return moveExportPosition(db, lease, {
          ...none,
          position: lease.position,
          deadLetters,
          dropped,
        });
      }
      case "read": {
        if (!leases.has(owner)) return [];
        const needs = {
          db,
          lease: { ...lease },
          codec: zstdCodec,
          objects: createNodeObjectReader(db),
          chunkBytes: 60,
          silenceMs: 30_000,
        };
        const source = createPostgresSource({
          ...needs,
          clock: { monotonic: () => 0 },
          connect: side.reader,
          disconnect: destroyClient,
        });
        await side.settled(lease);
        const lines: string[] = [];
        try {
          for (let chunk = await source.read(); chunk !== null; chunk = await source.read())
            for (const { payload } of envelopesIn(chunk).flat())
              lines.push(Buffer.from(payload).toString());
        } finally {
          source.close();
        }
        return lines;
      }
    }
  };
  const outcomes: unknown[] = [];
  for (const step of steps) {
    const outcome = await run(step).catch((error: unknown) =>
      error instanceof Error ? error.name : String(error),
    );
    await alignStoredCount(db, "default");
    const [lag] = await findExportLags(db);
    const letters = [[...(await countDeadLetters(db, "default"))], await countSendingHosts(db)];
    outcomes.push({ ...step, outcome: outcome ?? "done", lag: { ...lag, ageSeconds: 0 }, letters });
  }
  return outcomes;
};

it("the model of the database does for an export what PostgreSQL does", async () => {
  const database = await useTestDatabase();
  const committer = await openCommitClient(database.url);
  const { db, sql } = database.connect();
  const real: Side = {
    db,
    committer,
    reader: () => openCopyClient(database.url, readerSetup),
    expireLease: () =>
      sql`update export_position set lease_until = clock_timestamp() - interval '1 s'`,
    settled: (lease) =>
      eventually(async () => {
        const [row] = await sql<
          { last: string }[]
        >`select coalesce(max(xid), 0)::text as last from ingest_block`;
        const horizon = await readHorizon(db, lease);
        if (horizon <= BigInt(row?.last ?? 0)) throw new Error("other transactions are open");
        return horizon;
      }),
  };
  const property = fc.asyncProperty(
    fc.array(exportStep, { minLength: 1, maxLength: 12 }),
    async (steps) => {
      await sql.unsafe(
        "truncate ingest_cursor; truncate ingest_block; truncate ingest_stored; truncate ingest_host; truncate export_position; truncate export_dead_letter; truncate export_host_loss",
      );
      await createExportPosition(db, "default", "oldest");
      const expected = await outcomesOf(real, steps);
      const modelled = await inWorld(1, async (world) => {
        const server = createDatabaseServer(world);
        const client = world.process("exporter");
        const needs = { server, client, delays: { travelMs: [0, 1], commitMs: [0, 1] } as const };
        const db = connectExportDatabase(world, needs);
        const run = async () => {
          await createExportPosition(db, "default", "oldest");
          const committer = await connectCommitClient(world, {
            ...needs,
            core: client,
            onOpened: () => undefined,
          });
          const side: Side = {
            db,
            committer,
            reader: () => connectReader(world, needs),
            expireLease: async () =>
              Object.assign(server.tables.positions.get("default") ?? {}, {
                lease_until: server.now() - 1_000,
              }),
            settled: (lease) => readHorizon(db, lease),
          };
          return outcomesOf(side, steps);
        };
        const ran = run();
        await world.runUntil(3_600_000);
        return ran;
      });
      expect(modelled).toEqual(expected);
    },
  );
  try {
    await fc.assert(property, { numRuns: 25 });
  } finally {
    await committer.end();
  }
});

const moods: readonly BackendMood[] = [
  ...([
    "well",
    "down",
    "loses answers",
    "silent",
    "busy",
    "failing",
    "unauthorized",
    "a sign-in page",
  ] as const),
];

it.each(moods)("the model of a backend that is %s answers as one on a network", async (mood) => {
  const real = await startOtlpBackend();
  const client = createOtlpHttpClient({
    endpoint: new URL(real.httpUrl),
    headers: () => ({}),
    tls: {},
    concurrency: 1,
    timeoutMs: 300,
    isCompressed: true,
    clock: systemClock,
  });
  try {
    for (const rejected of [{}, { rejectedHosts: ["h"] }, { partialHosts: ["h"] }]) {
      const of = {
        rejectedHosts: new Set(rejected.rejectedHosts),
        partialHosts: new Set(rejected.partialHosts),
      };
      real.answer = ({ body }) => {
        const { answer, afterMs } = answerOf({ mood, ...of }, recordsOf(body));
        if (answer === null) return Number.isFinite(afterMs) ? "reset" : "hang";
        const headers = {
          ...(answer.contentType && { "content-type": answer.contentType }),
          ...(answer.retryAfter && { "retry-after": answer.retryAfter }),
        };
        return { http: answer.status, headers, ...(answer.body && { body: answer.body }) };
      };
      const request = encodeLogs([letterOf("h", 5n).envelope, letterOf("other", 6n).envelope]);
      const expected = await client.send("logs", request, 300);
      const { outcome, accepted } = await inWorld(1, async (world) => {
        const backend = Object.assign(createBackend(world), { mood }, of);
        const modelled = createBackendClient(world, {
          backend,
          client: world.process("exporter"),
          term: () => "1",
        });
        const sent = modelled.send("logs", request, 300);
        await world.runUntil(60_000);
        return { outcome: await sent, accepted: backend.accepted };
      });
      // The code of a lost connection is the system's.
      expect({ ...outcome, reason: undefined }).toEqual({ ...expected, reason: undefined });
      for (const { text, queueHex } of accepted)
        expect([text, queueHex]).toEqual(["text", queueId.toHex()]);
    }
  } finally {
    await client.close();
    await real.close();
  }
});
