import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { openDatabaseSocket } from "../../../functions/node/database/database-socket.ts";
import { connectDatabase } from "../../../functions/store/database/database.ts";
import type { SqlClient } from "../../../functions/store/database/pool/sql-client.ts";
import { systemClock } from "../../../kit/clock.ts";
import { systemEntropy } from "../../../kit/entropy.ts";
import { awaitPeople } from "../../../scripts/lab/await-people.ts";
import { issueClient } from "../../../scripts/lab/ca/issue-client.ts";
import { createLabPki, type LabPki } from "../../../scripts/lab/ca/pki.ts";
import { labCoreEnvironment } from "../../../scripts/lab/core-environment.ts";
import { startEdge } from "../../../scripts/lab/edge.ts";
import { startDirectory } from "../../../scripts/lab/lab-core.ts";
import { createOperatorApi, createPolicyWithToken } from "../../../scripts/lab/operator-api.ts";
import { waitUntil } from "../../../scripts/lab/wait-until.ts";
import { startEmbeddedPostgres } from "../../../scripts/postgres/embedded-postgres.ts";
import { startTcpProxy } from "../../fakes/tcp-proxy.ts";
import { logged, startProgram, stopProgram } from "../../support/program.ts";
import { checkStored, startNumberedLoad } from "../chaos/load.ts";
import { changedRows, keptRows } from "./kept-rows.ts";
import { changedRecords, readSchemaRecords, recordFaults } from "./schema-records.ts";
import { end, enrollHost, identityPrefix, type Revision } from "./upgraded-host.ts";

const clientCertificateHeader = "X-Client-Cert";
const statementTimeoutMs = 60_000;
/** A port on which nothing listens: connections to it are refused. */
const nowhere = 9;

/** The figures of an upgrade. */
export interface UpgradeReport {
  seconds: number;
  /** What the database says that the present core applied. */
  applied: ReturnType<typeof changedRecords>;
  /** Records that core acknowledged or a collector accepted. */
  acked: number;
  stored: number;
  missing: number;
  duplicates: number;
  disordered: number;
  /** Records in the queue that the present collector took over from the previous one. */
  carried: number;
  /** Hosts that enrolled, sent a heartbeat and forwarded, by the core that served them while both did. */
  served: { previous: string[]; present: string[] };
  /** Hosts that run the config assigned to them, by the core that assigned it. */
  configs: { beforeUpgrade: string; byPreviousOnNewSchema: string };
  /** Certificates by status. */
  certificates: Record<string, number>;
  broken: string[];
  ok: boolean;
}

/** Runs one upgrade described in main.ts. */
export const runUpgrade = async (
  previous: Revision,
  { seconds, progress }: { seconds: number; progress(line: string): void },
): Promise<UpgradeReport> => {
  const present: Revision = { dir: ".", node: process.execPath };
  await using cleanup = new AsyncDisposableStack();
  const dir = await mkdtemp(join(tmpdir(), "upgrade-run-"));
  cleanup.defer(() => rm(dir, { recursive: true }));
  const server = await startEmbeddedPostgres();
  cleanup.defer(() => server.stop("immediate"));
  const lab = join(dir, "lab");
  const pki = await createLabPki({ dir: lab, clock: systemClock });
  const authTokenSecret = systemEntropy.bytes(32).toHex();
  const directory = await startDirectory(dir, cleanup);
  const options = { url: server.url(), openSocket: openDatabaseSocket, deadlineMs: statementTimeoutMs };
  const { sql, close } = connectDatabase(options);
  cleanup.defer(() => close(1));
  const signal = AbortSignal.timeout(600_000);
  const until = <Found>(what: string, probe: () => Promise<Found | undefined>) =>
    waitUntil({ what, clock: systemClock, signal }, probe);
  const broken: string[] = [];
  const expect = (holds: boolean, fault: string) => {
    if (!holds) broken.push(fault);
  };

  const startCore = async (revision: Revision) => {
    const program = startProgram(
      join(revision.dir, "functions/main.ts"),
      [],
      {
        ...labCoreEnvironment({ databaseUrl: server.url(), pki, authTokenSecret }),
        ...directory,
        SVC_INGEST_REQUIRE_ENROLLMENT: "false",
        SVC_TRUST_LOOPBACK_OPS: "true",
        SVC_ENROLLMENT_CLIENT_CERT_HEADER: clientCertificateHeader,
        SVC_HEARTBEAT_INTERVAL: "11s",
      },
      revision.node,
    );
    cleanup.defer(() => end(program));
    const { port, ingest_port: ingestPort } = await logged(program, "ready");
    const coreUrl = `http://127.0.0.1:${port}`;
    const edge = await startLabEdge(pki, coreUrl);
    cleanup.defer(() => edge.close());
    return { program, coreUrl, edgeUrl: edge.url, ingestPort: Number(ingestPort) };
  };
  const isReady = async ({ coreUrl }: { coreUrl: string }, name: string) => {
    for (const path of ["/readyz", "/readyz/ingest"]) {
      const { status } = await fetch(coreUrl + path);
      expect(status === 200, `${name}: ${path} answers ${status}`);
    }
  };

  progress("the previous core migrates an empty database; its collector enrolls, takes a config and forwards");
  let old = await startCore(previous);
  const recordsBefore = await readSchemaRecords(sql);
  const userIds = await awaitPeople(sql, { clock: systemClock, signal });
  const proxy = await startTcpProxy(old.ingestPort);
  cleanup.defer(() => proxy.close());
  const apiOf = ({ coreUrl }: { coreUrl: string }) => createOperatorApi(coreUrl, authTokenSecret, userIds);
  const host = async (name: string, core: typeof old, revision: Revision, ingestPort: number) => {
    const policy = { name: crypto.randomUUID(), allowed_identity_prefixes: [identityPrefix] };
    const { token } = await createPolicyWithToken(apiOf(core), policy);
    const enrolled = await enrollHost(
      { dir: join(dir, name), name, token, edgeUrl: core.edgeUrl, ingestPort, pki },
      revision,
    );
    cleanup.defer(() => enrolled.end());
    enrolled.start(revision);
    return enrolled;
  };
  const isServed = ({ identity }: { identity: string }) =>
    until(`${identity} is served`, async () => {
      const [row] = await sql`
        select 1 from collector_health join collector_identity on identity_id = id
        where identity = ${identity} and (exists (select 1 from ingest_block where host_id = ${identity}) or exists (select 1 from ingest_envelope where host_id = ${identity}))`;
      return row && identity;
    });
  const assign = async (enrolled: typeof upgraded, core: typeof old) => {
    const [row] = await sql<{ id: string }[]>`select id from collector_identity where identity = ${enrolled.identity}`;
    return enrolled.assign(apiOf(core), row?.id ?? "");
  };
  const heartbeatWith = (identity: string, configHash: string) =>
    until(`${identity} reports its config`, async () => {
      // A heartbeat that repeats the last report moves its time in "fleet_status" alone, which the previous version does not have.
      const [found] = await sql<
        { name: string }[]
      >`select coalesce(to_regclass('fleet_status'), 'collector_health')::text as name`;
      const [row] = await sql<{ drift: string }[]>`
        select f.drift from fleet_host f join collector_health h using (identity_id) join ${sql(found?.name ?? "")} s using (identity_id)
        where f.identity = ${identity} and h.running_config_hash = ${configHash} and s.last_heartbeat_at > ${since}::timestamptz`;
      return row?.drift;
    });
  const client = async (identity: string) => {
    const files = await issueClient({
      dir: lab,
      identity,
      lifetimeSeconds: 86_400,
      clock: systemClock,
      entropy: systemEntropy,
    });
    return { cert: await readFile(files.certFile, "utf8"), key: await readFile(files.keyFile, "utf8") };
  };
  const caPem = await readFile(pki.serverCaFile, "utf8");
  const send = (names: readonly string[], port: number) =>
    startNumberedLoad(
      names.map((name) => identityPrefix + name),
      { port, caPem, client },
    );
  let since = "-infinity";
  const upgraded = await host("upgraded", old, previous, proxy.port);
  const moved = await send(["moved-1", "moved-2"], proxy.port);
  await isServed(upgraded);
  const configHash = await assign(upgraded, old);
  await heartbeatWith(upgraded.identity, configHash);
  await systemClock.sleep(seconds * 1000);
  const kept = await keptRows(sql);

  progress("the present core migrates the database; both serve");
  const now = await startCore(present);
  const recordsAfter = await readSchemaRecords(sql);
  const applied = changedRecords(recordsBefore, recordsAfter);
  broken.push(...(await recordFaults(recordsBefore, recordsAfter)));
  expect(applied.migrations.length > 0, "the database has no new migration");
  for (const row of changedRows(kept, await keptRows(sql))) broken.push(`the row ${row} was changed or lost`);
  const direct = await send(["direct-1", "direct-2"], now.ingestPort);
  const storedBefore = await countOf(sql);
  const hosts = await Promise.all([
    host("by-previous", old, previous, proxy.port),
    host("by-present", now, present, now.ingestPort),
  ]);
  const served = { previous: [await isServed(hosts[0])], present: [await isServed(hosts[1])] };
  const hashByPrevious = await assign(hosts[0], old);
  await hosts[0].renew(previous);
  await isReady(old, "the previous core on the new schema");
  await isReady(now, "the present core");
  await systemClock.sleep(seconds * 1000);
  expect((await countOf(sql)) > storedBefore, "nothing was stored while both cores served");

  progress("the previous core restarts on the new schema, and leaves it as it is");
  const stopOld = async () => {
    const code = await stopProgram(old.program);
    expect(code === 0, `the previous core ended with ${code}`);
  };
  await stopOld();
  old = await startCore(previous);
  proxy.target(old.ingestPort);
  await isReady(old, "the previous core, restarted on the new schema");
  await isReady(now, "the present core beside the restarted one");
  expect(isDeepStrictEqual(await readSchemaRecords(sql), recordsAfter), "the previous core applied something");
  since = await timeOf(sql);
  await heartbeatWith(hosts[0].identity, hashByPrevious);

  progress("the previous core stops; its hosts reconnect to the present one");
  proxy.target(now.ingestPort);
  await stopOld();
  await systemClock.sleep(seconds * 1000);

  progress("the collector is upgraded, with records in its queue");
  proxy.target(nowhere);
  proxy.reset();
  await systemClock.sleep(1_000);
  const stopped = await upgraded.stop();
  expect(stopped === 0, `the previous collector ended with ${stopped}`);
  const carried = await upgraded.queued(present);
  expect(carried > 0, "the queue was empty at the upgrade of the collector");
  upgraded.start(present);
  proxy.target(now.ingestPort);
  since = await timeOf(sql);
  await upgraded.renew(present);
  const configs = {
    beforeUpgrade: await heartbeatWith(upgraded.identity, configHash),
    byPreviousOnNewSchema: await heartbeatWith(hosts[0].identity, hashByPrevious),
  };
  for (const [name, drift] of Object.entries(configs)) expect(drift === "in_sync", `${name}: the config is ${drift}`);

  for (const each of [upgraded, ...hosts]) each.load.stop();
  await Promise.all([moved.finish(), direct.finish()]);
  const fromSenders = await checkStored(sql, [...moved.queues, ...direct.queues]);
  const total = { ...fromSenders };
  for (const each of [upgraded, ...hosts]) {
    const judged = await each.judge(sql);
    total.acked += each.owed().size;
    total.stored += judged.stored;
    for (const count of ["missing", "duplicates", "disordered"] as const) total[count] += judged[count];
    broken.push(...judged.faults);
  }
  for (const count of ["missing", "duplicates", "disordered"] as const)
    expect(total[count] === 0, `${total[count]} ${count}`);
  const certificates = await certificatesByStatus(sql);
  return { seconds, applied, ...total, carried, served, configs, certificates, broken, ok: broken.length === 0 };
};

const startLabEdge = async (pki: LabPki, coreUrl: string) =>
  startEdge({
    certPem: await readFile(pki.edge.certFile, "utf8"),
    keyPem: await readFile(pki.edge.keyFile, "utf8"),
    clientCaPem: await readFile(pki.enrollmentCa.certFile, "utf8"),
    coreUrl,
    clientCertificateHeader,
  });

const countOf = async (sql: SqlClient): Promise<number> =>
  Number(
    (
      await sql<{ count: string }[]>`
        select (select count(*) from ingest_envelope) + (select coalesce(sum(envelopes), 0) from ingest_block) as count`
    )[0]?.count,
  );

const timeOf = async (sql: SqlClient): Promise<string> =>
  (await sql<{ now: string }[]>`select clock_timestamp()::text as now`)[0]?.now ?? "";

const certificatesByStatus = async (sql: SqlClient): Promise<Record<string, number>> => {
  const rows = await sql<{ status: string; count: number }[]>`
    select status, count(*)::int as count from certificate group by status order by status`;
  return Object.fromEntries(rows.map(({ status, count }) => [status, count]));
};
