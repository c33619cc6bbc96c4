import { hash } from "node:crypto";
import { encodeAccountBody } from "#collector/queue/queue-accounts.ts";
import { createLogSigner } from "#functions/domain/completeness/log-signer.ts";
import { settleHours } from "#functions/domain/completeness/settle-hours.ts";
import { writeStatement } from "#functions/domain/completeness/write-statement.ts";
import { zstdCodec } from "#functions/node/ingest/zstd-codec.ts";
import { createNodeSigningKey } from "#functions/node/node-cryptography.ts";
import { hourMs, systemClock } from "#kit/clock.ts";
import { createTree, leafHash } from "#proto/completeness/merkle.ts";
import { createTestKey } from "#scripts/lab/ca/test-pki.ts";
import { createInProcessCore } from "#scripts/lab/in-process-core.ts";
import type { EmbeddedDatabase } from "#scripts/postgres/embedded-database.ts";
import { type Bench, collectGarbage, readBenchOptions, rounded } from "../support/bench.ts";
import { judgeGoals } from "../support/goals.ts";
import { cpuSecondsOf, ownCpuSeconds, startMeter } from "../support/processes.ts";
import { openSeededFleet } from "./large-fleet.ts";

/**
 * Measures the settling and the statement of an hour of `--collectors` hosts, each with an account: CPU of core and PostgreSQL, core's
 * memory over what it had, and the bytes of a line as they are stored. `--kept` is a directory that keeps the seeded fleet for the next run.
 * The floor is the hashing of as many lines.
 */
export const statementBench: Bench = async (args) => {
  const { collectors, kept } = readBenchOptions(args, { collectors: 100_000, kept: "" });
  const seededMs = Math.floor(systemClock.now() / hourMs) * hourMs + 20 * 60_000;
  const { database, behindMs } = await openSeededFleet(collectors, kept, { now: () => seededMs });
  await using _ = database;
  const now = seededMs - behindMs;
  const core = createInProcessCore({ db: database.db, clock: { ...systemClock, now: () => now } });
  await addAccounts(database, Math.floor(now / hourMs) * hourMs - hourMs);
  const settling = await cpuOf(database, () =>
    settleHours(core, { owner: crypto.randomUUID(), retentionDays: 400 }),
  );
  const signingKey = createNodeSigningKey((await createTestKey("ed25519")).pem);
  const logSigner = await createLogSigner("bench/log", signingKey);
  const writing = await peakOf(() =>
    cpuOf(database, () =>
      writeStatement({ ...core, codec: zstdCodec, logSigner }, crypto.randomUUID()),
    ),
  );
  const { result: report, core: coreSeconds, postgres, seconds } = writing.result;
  const [sizes] = await database.sql.unsafe<{ stored: string; raw: string }[]>(
    "select sum(length(lines))::text as stored, sum(raw_bytes)::text as raw from completeness_chunk",
  );
  const lines = report?.lines ?? 0;
  const figures = {
    cpu_s: coreSeconds + postgres,
    core_mb: writing.grownMb,
    line_bytes: Number(sizes?.stored) / lines,
  };
  const judged = judgeGoals("statement", figures);
  const floor = hashSeconds(lines);
  return {
    figure: rounded(figures.cpu_s, 2),
    unit: "s",
    floor: rounded(floor, 2),
    ratio: rounded(figures.cpu_s / floor, 1),
    ...judged,
    ok: judged.ok && lines > 0.9 * collectors,
    details: {
      report,
      seconds: rounded(seconds, 1),
      raw_line_bytes: rounded(Number(sizes?.raw) / lines),
      settling: {
        hosts: settling.result?.hosts,
        core_s: rounded(settling.core, 2),
        postgres_s: rounded(settling.postgres, 2),
      },
      core_s: rounded(coreSeconds, 2),
      postgres_s: rounded(postgres, 2),
      peak_mb: rounded(writing.peakMb),
    },
  };
};

/** Returns by how much this process grew while it worked, and its largest memory. */
const peakOf = async <Result>(work: () => Promise<Result>) => {
  collectGarbage();
  const before = process.memoryUsage().rss;
  let peak = before;
  const sampler = setInterval(() => {
    peak = Math.max(peak, process.memoryUsage().rss);
  }, 20);
  const result = await work();
  clearInterval(sampler);
  return { result, grownMb: (peak - before) / 2 ** 20, peakMb: peak / 2 ** 20 };
};

/** Returns what work costs, in seconds of CPU. */
const cpuOf = async <Result>({ pid }: EmbeddedDatabase, work: () => Promise<Result>) => {
  const meter = startMeter(() => ({ core: ownCpuSeconds(), postgres: cpuSecondsOf(pid) }));
  const result = await work();
  const { seconds, cpu } = meter();
  return { result, seconds, ...cpu };
};

/** Gives each host an account of the hour, which core has in full. */
const addAccounts = async ({ sql }: EmbeddedDatabase, hour: number): Promise<void> => {
  const body = encodeAccountBody(
    {
      fromMs: hour,
      toMs: hour + hourMs,
      firstSequence: 1,
      lastSequence: 3600,
      stopped: false,
      atLeast: false,
      expired: 0,
      damaged: 0,
      fileGapBytes: 0,
      waitedMs: 0,
      ackedBeforeThrough: 0,
      refused: [],
      accepted: [
        { kind: "log_line", source: "/var/log/app.log", records: 3000, bytes: 300_000 },
        { kind: "otel_span", source: "otlp", records: 600, bytes: 200_000 },
      ],
    },
    {
      hostId: "https://fleet.example.test/dc-1/host-1",
      queueId: new Uint8Array(16),
      number: 1,
      previousSha256: new Uint8Array(32),
      previousQueueId: new Uint8Array(),
      certificateSha256: new Uint8Array(32),
    },
  );
  await sql.unsafe(`
    insert into ingest_account (host_id, queue_id, number, sha256, body, signature, is_linked, follows_gap, from_at, to_at, is_stopped,
      last_sequence, accepted, is_checked, stored, rejected, discarded, lost, missing, range_digest, sink, received_at, xid)
    select identity, substr(sha256(convert_to(identity, 'UTF8')), 1, 16), 1, sha256(convert_to('a' || identity, 'UTF8')), '\\x${Buffer.from(body).toString("hex")}',
      sha256('') || sha256(''), true, false, at, at + interval '1 hour', false, 3600 + length(identity), 3600 + length(identity) % 17, true,
      3600 + length(identity) % 17, 0, 0, 0, 0, sha256(convert_to('b' || identity, 'UTF8')), 'postgres', at + interval '1 hour', 7
    from fleet_status, to_timestamp(${hour / 1000}) as at`);
  await sql.unsafe(`
    insert into ingest_queue (host_id, queue_id, first_seen_at, last_seen_at, sends_accounts)
    select host_id, queue_id, from_at, to_at, true from ingest_account on conflict do nothing`);
  await sql.unsafe("vacuum analyze ingest_account, ingest_queue");
};

/** Returns how long it takes to hash lines, and nothing else. */
const hashSeconds = (lines: number): number => {
  const sha256 = (bytes: Uint8Array) => hash("sha256", bytes, "buffer");
  const line = new TextEncoder().encode("x".repeat(150));
  const start = performance.now();
  const tree = createTree(sha256);
  for (let at = 0; at < lines; at++) tree.append(leafHash(sha256, line));
  tree.root();
  return (performance.now() - start) / 1000;
};
