import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { openDatabaseSocket } from "../../functions/node/database/database-socket.ts";
import { connectDatabase } from "../../functions/store/database/database.ts";
import { systemClock } from "../../kit/clock.ts";
import { createLabPki } from "../../scripts/lab/ca/pki.ts";
import { labCoreEnvironment } from "../../scripts/lab/core-environment.ts";
import { startEdge } from "../../scripts/lab/edge.ts";
import { createOperatorApi, createPolicyWithToken } from "../../scripts/lab/operator-api.ts";
import { seedPeople } from "../../scripts/lab/people.ts";
import { findPorts } from "../../scripts/ports.ts";
import { startEmbeddedPostgres } from "../../scripts/postgres/embedded-postgres.ts";
import { restoreBaseBackup, takeBaseBackup } from "../support/base-backup.ts";
import { eventually } from "../support/eventually.ts";
import { createHostProgram } from "../support/host-program.ts";
import { logged, startProgram, stopProgram } from "../support/program.ts";
import { findStored } from "../support/stored-envelopes.ts";

/* docs/restore.md with a base backup of a database that two running collectors write to. */

const secret = "a-test-secret-of-more-than-32-bytes";
const header = "x-client-cert";
const lineIntervalMs = 20;
const linesPerTick = 5;

/** The sequence of each stored line. */
type Stored = ReadonlyMap<string, number>;

it("Q12: after a restore of a base backup made under load, collectors continue, and each host's loss is reported exactly", async () => {
  const ends: (() => unknown)[] = [];
  onTestFinished(async () => {
    for (const end of ends.toReversed()) await end();
  });
  const dir = await mkdtemp(join(tmpdir(), "backup-"));
  ends.push(() => rm(dir, { recursive: true, force: true }));
  const postgres = await startEmbeddedPostgres();
  ends.push(() => postgres.stop("immediate"));
  const pki = await createLabPki({ dir: join(dir, "pki"), clock: systemClock });
  const [httpPort = 0, ingestPort = 0] = await findPorts(2);
  const startCore = async () => {
    const program = startProgram("functions/main.ts", [], {
      ...labCoreEnvironment({ databaseUrl: postgres.url(), pki, authTokenSecret: secret, httpPort, ingestPort }),
      SVC_ENROLLMENT_CLIENT_CERT_HEADER: header,
      SVC_HEARTBEAT_INTERVAL: "11s",
    });
    ends.push(() => stopProgram(program));
    await logged(program, "ready");
    return program;
  };
  let core = await startCore();
  const coreUrl = `http://127.0.0.1:${httpPort}`;
  const edge = await startEdge({
    certPem: await readFile(pki.edge.certFile, "utf8"),
    keyPem: await readFile(pki.edge.keyFile, "utf8"),
    clientCaPem: await readFile(pki.enrollmentCa.certFile, "utf8"),
    coreUrl,
    clientCertificateHeader: header,
  });
  ends.push(() => edge.close());
  const connection = connectDatabase({ url: postgres.url(), openSocket: openDatabaseSocket, deadlineMs: 60_000 });
  ends.push(() => connection.close(1));
  const { sql } = connection;
  await seedPeople(connection.db, Date.now());
  const identityPrefix = "https://fleet.test/d/";
  const policy = { name: "lab", allowed_identity_prefixes: [identityPrefix] };
  const { token } = await createPolicyWithToken(createOperatorApi(coreUrl, secret), policy, { max_uses: 2 });
  await writeFile(join(dir, "token"), token, { mode: 0o600 });
  const target = () => ({ dir, coreUrl: edge.url, ingestPort, caBundle: pki.serverCaFile, identityPrefix });
  const hosts = ["one", "two"].map((name) => createHostProgram(name, target));
  for (const host of hosts) {
    await host.enroll();
    await host.tail();
    host.start();
    ends.push(() => host.stop());
  }
  let written = 0;
  const writer = setInterval(() => {
    const lines = Array.from({ length: linesPerTick }, () => `${written++}`);
    for (const host of hosts) void host.write(...lines);
  }, lineIntervalMs);
  ends.push(() => clearInterval(writer));

  const storedOf = async ({ identity }: { identity: string }): Promise<Stored> => {
    const rows = (await findStored(sql)).filter(({ hostId }) => hostId === identity);
    const stored = new Map(rows.map(({ text, sequence }) => [text, Number(sequence)]));
    expect(stored.size).toBe(rows.length);
    return stored;
  };
  /** Waits until both hosts have `more` lines stored than now. */
  const forwardMore = async (more: number) => {
    const goals = await Promise.all(hosts.map(async (host) => (await storedOf(host)).size + more));
    await eventually(async () => {
      for (const [at, host] of hosts.entries()) expect((await storedOf(host)).size).toBeGreaterThan(goals[at] ?? 0);
    });
  };

  await forwardMore(500);
  const backup = join(dir, "backup");
  const [begun, writtenBefore] = [performance.now(), written];
  await takeBaseBackup(postgres, backup);
  const backupMs = performance.now() - begun;
  expect(written).toBeGreaterThan(writtenBefore);
  await forwardMore(500);

  await stopProgram(core);
  const before = await Promise.all(hosts.map(storedOf));
  await postgres.restart({
    whileStopped: (dataDir) => restoreBaseBackup(backup, dataDir),
  });
  const restored = await Promise.all(hosts.map(storedOf));
  const restoredAt = performance.now();
  core = await startCore();
  await forwardMore(500);
  const resumedMs = performance.now() - restoredAt;
  clearInterval(writer);
  // Nothing but what the restore lost is missing: it is in the range that the host's event reports, which names nothing else.
  const figures = await Promise.all(
    hosts.map(async (host, at) => {
      const [old, kept] = [before[at] ?? new Map(), restored[at] ?? new Map()];
      const lines = Array.from({ length: written }, (_, line) => `${host.deviceId} ${line}`);
      const owed = lines.filter((line) => !old.has(line) || kept.has(line));
      const stored = await eventually(async () => {
        const found = await storedOf(host);
        expect(owed.filter((line) => !found.has(line))).toEqual([]);
        return found;
      });
      // The collector resends what core committed and could not acknowledge before it stopped.
      const lost = lines.filter((line) => !stored.has(line));
      expect(lost.length).toBeGreaterThan(0);
      const sequences = lost.map((line) => old.get(line) ?? 0);
      const gaps = await sql<{ details: { from: number; through: number } }[]>`
        select details from audit_event where action = 'ingest.gap' and details->>'host_id' = ${host.identity}`;
      const range = { from: Math.min(...sequences), through: Math.max(...sequences) };
      expect(gaps.map(({ details }) => details)).toEqual([expect.objectContaining(range)]);
      const [total] = await sql<{ ranges: string; max: string }[]>`
        select ranges, records_max as max from ingest_gap where host_id = ${host.identity}`;
      expect({ ranges: Number(total?.ranges), max: Number(total?.max) }).toEqual({ ranges: 1, max: lost.length });
      return { host: host.deviceId, written, lost: lost.length };
    }),
  );
  console.log(JSON.stringify({ figures, backup_ms: Math.round(backupMs), resumed_ms: Math.round(resumedMs) }));
});
