import { appendFile, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Sql } from "postgres";
import { parseDocument } from "yaml";
import { openDatabaseSocket } from "../../../functions/node/database-socket.ts";
import { connectDatabase } from "../../../functions/store/database.ts";
import { systemClock } from "../../../kit/clock.ts";
import { systemEntropy } from "../../../kit/entropy.ts";
import { rootAcknowledgement } from "../../../proto/collector-config/schema.ts";
import { awaitPeople } from "../../../scripts/lab/await-people.ts";
import { labCoreEnvironment } from "../../../scripts/lab/core-environment.ts";
import { startEdge } from "../../../scripts/lab/edge.ts";
import { startDirectory } from "../../../scripts/lab/lab-core.ts";
import { createOperatorApi, createPolicyWithToken } from "../../../scripts/lab/operator-api.ts";
import { waitUntil } from "../../../scripts/lab/wait-until.ts";
import { issueClient } from "../../../scripts/lab-ca/issue-client.ts";
import { createLabPki, type LabPki } from "../../../scripts/lab-ca/pki.ts";
import { findPorts } from "../../../scripts/ports.ts";
import { startEmbeddedPostgres } from "../../../scripts/postgres/embedded-postgres.ts";
import { startTcpProxy } from "../../fakes/tcp-proxy.ts";
import { logged, type Program, startProgram, stopProgram } from "../../program.ts";
import { checkStored, startNumberedLoad } from "../chaos/load.ts";
import { judge, readStoredQueues } from "../chaos/stored-queues.ts";
import { type Load, startLoad } from "../soak/load.ts";
import type { CheckedOut } from "./previous.ts";

const clientCertificateHeader = "X-Client-Cert";
const identityPrefix = "https://fleet.upgrade/d/";
const recordsPerSecond = 200;
const drainTimeoutMs = 60_000;
/** A port on which nothing listens: connections to it are refused. */
const nowhere = 9;

/** The figures of an upgrade. */
export interface UpgradeReport {
  seconds: number;
  /** What the present core applied to the database of the previous one. */
  applied: string[];
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
  broken: string[];
  ok: boolean;
}

/** Where programs come from: a working tree, and the Node that runs them. */
type Revision = Pick<CheckedOut, "dir" | "node">;

/** Runs the upgrade described in main.ts. */
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
  const { sql, close } = connectDatabase({
    url: server.url(),
    openSocket: openDatabaseSocket,
    deadlineMs: drainTimeoutMs,
  });
  cleanup.defer(() => close(1));
  const signal = AbortSignal.timeout(600_000);
  const until = <Found>(what: string, probe: () => Promise<Found | undefined>) =>
    waitUntil({ what, clock: systemClock, signal }, probe);
  const broken: string[] = [];

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
      if (status !== 200) broken.push(`${name}: ${path} answers ${status}`);
    }
  };

  progress("the previous core migrates an empty database; its collector enrolls and forwards");
  const old = await startCore(previous);
  const migrationsBefore = await appliedTo(sql);
  const userIds = await awaitPeople(sql, { clock: systemClock, signal });
  const proxy = await startTcpProxy(old.ingestPort);
  cleanup.defer(() => proxy.close());
  const token = async ({ coreUrl }: { coreUrl: string }) => {
    const policy = { name: crypto.randomUUID(), allowed_identity_prefixes: [identityPrefix] };
    return (await createPolicyWithToken(createOperatorApi(coreUrl, authTokenSecret, userIds), policy)).token;
  };
  const host = async (name: string, core: typeof old, revision: Revision, ingestPort: number) => {
    const options = { dir: join(dir, name), name, token: await token(core), edgeUrl: core.edgeUrl, ingestPort, pki };
    const enrolled = await enrollHost(options, revision);
    cleanup.defer(() => enrolled.end());
    enrolled.start(revision);
    return enrolled;
  };
  const isServed = ({ identity }: { identity: string }) =>
    until(`${identity} is served`, async () => {
      const [row] = await sql`
        select 1 from collector_health join collector_identity on identity_id = id
        where identity = ${identity} and exists (select 1 from ingest_envelope where host_id = ${identity})`;
      return row && identity;
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
  const upgraded = await host("upgraded", old, previous, proxy.port);
  const moved = await send(["moved-1", "moved-2"], proxy.port);
  await isServed(upgraded);
  await systemClock.sleep(seconds * 1000);

  progress("the present core migrates the database; both serve");
  const now = await startCore(present);
  const applied = (await appliedTo(sql)).filter((name) => !migrationsBefore.includes(name));
  const direct = await send(["direct-1", "direct-2"], now.ingestPort);
  const hosts = await Promise.all([
    host("by-previous", old, previous, proxy.port),
    host("by-present", now, present, now.ingestPort),
  ]);
  const since = await countOf(sql);
  const served = { previous: [await isServed(hosts[0])], present: [await isServed(hosts[1])] };
  await isReady(old, "the previous core on the new schema");
  await isReady(now, "the present core");
  await systemClock.sleep(seconds * 1000);
  if ((await countOf(sql)) <= since) broken.push("nothing was stored while both cores served");

  progress("the previous core stops; its hosts reconnect to the present one");
  proxy.target(now.ingestPort);
  const code = await stopProgram(old.program);
  if (code !== 0) broken.push(`the previous core ended with ${code}`);
  await systemClock.sleep(seconds * 1000);

  progress("the collector is upgraded, with records in its queue");
  proxy.target(nowhere);
  proxy.reset();
  await systemClock.sleep(1_000);
  const stopped = await upgraded.stop();
  if (stopped !== 0) broken.push(`the previous collector ended with ${stopped}`);
  const carried = await upgraded.queued(present);
  if (carried === 0) broken.push("the queue was empty at the upgrade of the collector");
  upgraded.start(present);
  proxy.target(now.ingestPort);
  await systemClock.sleep(seconds * 1000);

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
    if (total[count] > 0) broken.push(`${total[count]} ${count}`);
  return { seconds, applied, ...total, carried, served, broken, ok: broken.length === 0 };
};

const end = async (program: Program): Promise<void> => {
  if (!program.hasExited) program.child.kill("SIGKILL");
  await program.exited;
};

const startLabEdge = async (pki: LabPki, coreUrl: string) =>
  startEdge({
    certPem: await readFile(pki.edge.certFile, "utf8"),
    keyPem: await readFile(pki.edge.keyFile, "utf8"),
    clientCaPem: await readFile(pki.enrollmentCa.certFile, "utf8"),
    coreUrl,
    clientCertificateHeader,
  });

const appliedTo = async (sql: Sql): Promise<string[]> => {
  const rows = await sql<{ name: string }[]>`
    select name || ' ' || left(sha256, 8) as name from schema_migration
    union all select name || ' ' || left(sha256, 8) from schema_definition order by 1`;
  return rows.map(({ name }) => name);
};

const countOf = async (sql: Sql): Promise<number> =>
  Number((await sql<{ count: string }[]>`select count(*) from ingest_envelope`)[0]?.count);

/** A host under load whose collector can be replaced by that of another revision. */
const enrollHost = async (
  options: { dir: string; name: string; token: string; edgeUrl: string; ingestPort: number; pki: LabPki },
  revision: Revision,
) => {
  const { dir, name, edgeUrl, ingestPort, pki } = options;
  const identity = identityPrefix + name;
  const [configDir, log, tokenFile] = [join(dir, "etc"), join(dir, "logs", "app.log"), join(dir, "token")];
  const config = join(configDir, "collector.yaml");
  await mkdir(join(dir, "logs"), { recursive: true });
  await appendFile(log, "");
  await writeFile(tokenFile, options.token, { mode: 0o600 });
  const run = (of: Revision, ...args: string[]) => startProgram(join(of.dir, "collector/main.ts"), args, {}, of.node);
  const enroll = run(
    revision,
    ...["enroll", "--core", edgeUrl, "--ingest", `localhost:${ingestPort}`, "--token-file", tokenFile],
    ...["--device-id", name, "--identity-prefix", identityPrefix, "--ca-bundle", pki.serverCaFile],
    ...["--config-dir", configDir],
    ...(process.geteuid?.() === 0 ? ["--allow-root-acknowledged", rootAcknowledgement] : []),
  );
  if ((await enroll.exited) !== 0) throw new Error(`${name} could not enroll: ${enroll.stderr}`);
  const [otlpPort] = await findPorts(1);
  const document = parseDocument(await readFile(config, "utf8"));
  const sources = [
    { type: "otlp", grpc: { listen: `127.0.0.1:${otlpPort}` } },
    { type: "file", include: [log], start_at: "beginning" },
  ];
  document.setIn(["sources"], document.createNode(sources));
  // Management requests take the way of the frames, and so move to the other core with them.
  document.setIn(["management", "core_url"], `https://localhost:${ingestPort}`);
  await writeFile(config, document.toString());
  let program: Program | undefined;
  const load: Load = startLoad(log, `127.0.0.1:${otlpPort}`, recordsPerSecond);
  const owed = () =>
    new Set([
      ...Array.from({ length: load.lines() }, (_, line) => `line ${line}`),
      ...Array.from(load.accepted, (span) => `span-${span}`),
    ]);
  return {
    identity,
    load,
    owed,
    start: (of: Revision) => {
      program = run(of, "run", "--config", config);
    },
    stop: () => (program === undefined ? Promise.resolve(null) : stopProgram(program)),
    queued: async (by: Revision): Promise<number> => {
      const diag = run(by, "diag", "--json", "--config", config);
      await diag.exited;
      return (diag.records[0] as { queue?: { records?: number } } | undefined)?.queue?.records ?? 0;
    },
    /** Waits until everything owed is stored, at most a minute. */
    judge: async (sql: Sql) => {
      const judgeNow = async () =>
        judge(
          await readStoredQueues(sql, [identity]),
          [],
          [{ hostId: identity, owed: owed(), forked: new Set(), isCopied: false }],
        );
      const deadline = performance.now() + drainTimeoutMs;
      let judged = await judgeNow();
      while (judged.missing > 0 && performance.now() < deadline) {
        await systemClock.sleep(500);
        judged = await judgeNow();
      }
      return judged;
    },
    end: async () => {
      load.stop();
      if (program) await end(program);
    },
  };
};
