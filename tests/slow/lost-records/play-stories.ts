import { cp, mkdir, readFile, rm, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { parseDocument } from "yaml";
import { createLogSigner } from "#functions/domain/completeness/write-statement.ts";
import { createNodeSigningKey } from "#functions/node/node-cryptography.ts";
import type { SqlClient } from "#functions/store/database/pool/sql-client.ts";
import { hourMs } from "#kit/clock.ts";
import { graceMs } from "#proto/completeness/decide-hour.ts";
import { formatNoteKey } from "#proto/completeness/signed-note.ts";
import { programPaths } from "#scripts/bundle/bundle-programs.ts";
import { createTestKey } from "#scripts/lab/ca/test-pki.ts";
import type { LabContext } from "#scripts/lab/context.ts";
import { startLabEdge } from "#scripts/lab/core-process.ts";
import { type EnrolledCollector, enrollCollector } from "#scripts/lab/enroll-collector.ts";
import { type LabCore, startLabCore } from "#scripts/lab/lab-core.ts";
import { createLineWriter, type LineWriter } from "#scripts/lab/line-writer.ts";
import { createOperatorApi, createPolicyWithToken } from "#scripts/lab/operator-api.ts";
import { waitUntil } from "#scripts/lab/wait-until.ts";
import { findPorts } from "#scripts/ports.ts";
import { readHour, tryChangedFiles } from "./read-hour.ts";

/** Returns options of Node with which a program's wall clock is ahead of the machine's. */
const clockAheadFlags = (aheadMs: number): string[] => {
  const move = `const now = Date.now; Date.now = () => now() + ${aheadMs};`;
  return ["--import", `data:text/javascript,${encodeURIComponent(move)}`];
};

/**
 * Moves the clock of a lab's database ahead, as far as statements ask for it. The server would find its own function by number, whatever the
 * catalog says: it gets another name, and another function has its.
 */
const moveDatabaseClock = (sql: SqlClient, aheadMs: number): Promise<unknown> =>
  sql.unsafe(`set allow_system_table_mods = on;
    do $do$ begin
      if to_regprocedure('pg_catalog.machine_timestamp()') is null then
        alter function pg_catalog.clock_timestamp() rename to machine_timestamp;
      end if;
    end $do$;
    create or replace function pg_catalog.clock_timestamp() returns timestamptz language sql volatile
      as $$ select pg_catalog.machine_timestamp() + interval '${aheadMs} milliseconds' $$;
    reset allow_system_table_mods`);

/** A host of a story. */
export interface StoryHost {
  name: string;
  dir: string;
  identityId: string;
  collector: EnrolledCollector;
  lines: LineWriter;
  /** Where its queue is. */
  data: string;
}

/** The lab of the stories. */
export interface StoryLab extends LabCore {
  context: LabContext;
  keysFile: string;
  /** Core's clock. */
  now(): number;
}

const identityPrefix = "spiffe://fleet.example.test/host/";
const storyNames = [
  "queue-lost",
  "two-collectors",
  "disk-back",
  "revoked",
  "log-gap",
  "well",
  "never-started",
] as const;
type Hosts = Record<(typeof storyNames)[number], StoryHost>;

const origin = "lost-records.example.test/completeness";

/** Creates the key of the log of statements: the variables of core, and its line in a file of keys. */
const createStatementLog = async (
  dir: string,
): Promise<{ env: Record<string, string>; key: string }> => {
  const keyFile = join(dir, "completeness.pem");
  const { pem } = await createTestKey("ed25519");
  await writeFile(keyFile, pem, { mode: 0o600 });
  const { key } = await createLogSigner(origin, createNodeSigningKey(pem));
  return {
    env: { SVC_COMPLETENESS_KEY_FILE: keyFile, SVC_COMPLETENESS_ORIGIN: origin },
    key: formatNoteKey(key),
  };
};

/** Plays all stories in one hour of one core. */
export const playStories = async (context: LabContext, cleanup: AsyncDisposableStack) => {
  const { dir, clock, entropy, progress } = context;
  const leftMs = hourMs - (clock.now() % hourMs);
  if (leftMs < 3 * 60_000) {
    progress("waiting for the next hour, so that the stories are in one");
    await clock.sleep(leftMs + 1_000, context.signal);
  }
  const hour = Math.floor(clock.now() / hourMs) * hourMs;
  const log = await createStatementLog(dir);
  const core = await startLabCore({ env: log.env }, context, cleanup);
  const { pki } = core;
  const keysFile = join(dir, "keys");
  await writeFile(keysFile, `${log.key}\n${await readFile(pki.enrollmentCa.certFile, "utf8")}`);
  const [port = 0] = await findPorts(1, entropy);
  const edge = await startLabEdge(pki, { coreUrl: core.httpUrl, port });
  cleanup.defer(() => edge.close());
  const lab: StoryLab = {
    ...core,
    context,
    keysFile,
    now: clock.now,
    api: createOperatorApi(core.httpUrl, core.authTokenSecret, core.userIds, () => lab.now()),
  };
  const hosts = await enrollHosts(lab, edge.url);
  const played = await loseRecords(lab, hosts);
  await endHour(lab, hour, [
    hosts["two-collectors"],
    hosts["disk-back"],
    hosts["queue-lost"],
    hosts["log-gap"],
    hosts.well,
  ]);
  // Core's clock is ahead of this one.
  lab.now = () => hour + hourMs + graceMs + 60_000;
  const stories = [];
  for (const [name, lost] of Object.entries(played))
    stories.push({ story: name, lost, ...(await readHour(lab, hosts[name as keyof Hosts], hour)) });
  const well = await readHour(lab, hosts.well, hour);
  const unknown = await readHour(lab, hosts["never-started"], hour);
  const files = await tryChangedFiles(lab, hour);
  const isRefused = files.changed.every(
    ({ server, independent }) => server !== 0 && independent !== 0,
  );
  return {
    hour: new Date(hour).toISOString(),
    stories,
    well,
    never_started: unknown,
    files,
    ok:
      stories.every(({ claims }) => !claims.some(isWhole)) &&
      well.claims.every((claim) => isWhole(claim) || claim === "none") &&
      !unknown.claims.some(isWhole) &&
      files.whole.server === 0 &&
      files.whole.independent === 0 &&
      isRefused,
  };
};

const isWhole = (claim: string): boolean => ["complete", "undelivered"].includes(claim);

const enrollHosts = async (lab: StoryLab, edgeUrl: string): Promise<Hosts> => {
  const { api, context } = lab;
  const policy = { name: "stories", allowed_identity_prefixes: [identityPrefix] };
  const { token } = await createPolicyWithToken(api, policy, { ttl_seconds: 600, max_uses: 0 });
  const enroll = async (name: string): Promise<[string, StoryHost]> => {
    const dir = join(context.dir, "hosts", name);
    const lines = await createLineWriter(join(dir, "app"));
    const sources = [{ type: "file", include: [lines.file], start_at: "beginning" }];
    const collector = await enrollCollector(
      { name, dir, token, sources },
      { ...lab, edgeUrl, identityPrefix },
    );
    const found = await api<{ items: { identity: string; identity_id: string }[] }>(
      "auditor",
      "GET",
      `/v1/collector/health?q=${name}`,
    );
    const identityId =
      found.items.find(({ identity }) => identity === collector.identity)?.identity_id ?? "";
    return [name, { name, dir, lines, collector, identityId, data: join(dir, "etc", "data") }];
  };
  const found: [string, StoryHost][] = [];
  for (const name of storyNames) found.push(await enroll(name));
  return Object.fromEntries(found) as Hosts;
};

let written = 0;
const write = (host: StoryHost, count: number): Promise<void> =>
  host.lines.append(Array.from({ length: count }, () => `${host.name}-${written++}`));

/** Plays what happens to each host; returns how many records it had accepted, or had in its file, and nobody has. */
const loseRecords = async (lab: StoryLab, hosts: Hosts) => {
  const { context, api, processes, sql } = lab;
  const { progress } = context;
  const {
    "queue-lost": lost,
    "two-collectors": two,
    "disk-back": back,
    revoked,
    "log-gap": gap,
    well,
  } = hosts;
  const stored = (host: StoryHost, count: number) =>
    waitUntil({ what: `core has ${count} records of ${host.name}`, ...context }, async () => {
      const [row] =
        await sql`select coalesce(sum(envelopes), 0)::int as stored from ingest_block where host_id = ${host.collector.identity}`;
      return row?.stored >= count || undefined;
    });
  const queued = (name: string, config: string, count: number) =>
    waitUntil({ what: `${name} has ${count} unsent records`, ...context }, async () => {
      const { stdout } = await processes.run({
        args: [programPaths["svc-collector"], "status", "--config", config, "--json"],
      });
      return (JSON.parse(stdout || "{}").queue?.records ?? 0) >= count || undefined;
    });

  progress("all hosts send; one has a second collector, of one a copy of the disk is kept");
  const second = await copyHost(two);
  const starting = [lost, two, back, revoked, gap, well];
  for (const host of starting) host.collector.start();
  const twin = startTwin(lab, second);
  for (const host of starting) await write(host, 290);
  await second.lines.append(Array.from({ length: 100 }, () => `twin-${written++}`));
  for (const host of starting) await stored(host, host === two ? 390 : 290);
  await back.collector.stop();
  await cp(back.data, `${back.data}-copy`, { recursive: true });
  back.collector.start();
  await write(back, 50);
  await stored(back, 340);

  progress("core is down, and hosts accept records; some of them are destroyed");
  await lab.kill();
  await write(lost, 389);
  await write(back, 81);
  await write(revoked, 200);
  await second.lines.append(Array.from({ length: 516 }, () => `twin-${written++}`));
  await queued("queue-lost", lost.collector.configFile, 389);
  await queued("disk-back", back.collector.configFile, 81);
  await queued("revoked", revoked.collector.configFile, 200);
  await queued("the second collector", second.config, 516);
  for (const host of [lost, back, revoked, gap]) await host.collector.kill();
  await twin.kill();
  await rm(second.dir, { recursive: true });
  await rm(lost.data, { recursive: true });
  await truncate(lost.lines.file);
  await rm(back.data, { recursive: true });
  await cp(`${back.data}-copy`, back.data, { recursive: true });
  await truncate(back.lines.file);
  await write(gap, 40);
  await rm(gap.lines.file);
  await writeFile(gap.lines.file, "");

  progress("core is back; a host is revoked, and the others go on");
  lab.start();
  await lab.ready();
  await api("admin", "POST", `/v1/collector/identities/${revoked.identityId}/revoke`, {
    reason_code: "stolen",
  });
  for (const host of [lost, back, gap]) host.collector.start();
  for (const host of [lost, two, back, gap, well]) await write(host, 456);
  await stored(lost, 290 + 456);
  await stored(two, 390 + 456);
  await stored(back, 340 + 456);
  await stored(gap, 290 + 456);
  await stored(well, 290 + 456);
  return { "queue-lost": 389, "two-collectors": 516, "disk-back": 81, revoked: 200, "log-gap": 40 };
};

interface Twin {
  dir: string;
  config: string;
  lines: LineWriter;
}

/** Copies a host's identity and config: another queue, another file. */
const copyHost = async ({ dir, collector }: StoryHost): Promise<Twin> => {
  const twin = `${dir}-twin`;
  await mkdir(twin);
  await cp(join(dir, "etc"), join(twin, "etc"), { recursive: true, verbatimSymlinks: true });
  const config = join(twin, "etc", "collector.yaml");
  const lines = await createLineWriter(join(twin, "app"));
  const document = parseDocument(await readFile(collector.configFile, "utf8"));
  document.setIn(["buffer", "dir"], join(twin, "data"));
  document.setIn(["sources", 0, "include"], [lines.file]);
  await writeFile(config, document.toString());
  return { dir: twin, config, lines };
};

const startTwin = ({ processes }: StoryLab, { config }: Twin) =>
  processes.start({
    name: "twin",
    args: [programPaths["svc-collector"], "run", "--config", config],
  });

/** Ends the hour for hosts, core and database: nobody waits for it. */
const endHour = async (
  lab: StoryLab,
  hour: number,
  running: readonly StoryHost[],
): Promise<void> => {
  const { context, sql } = lab;
  context.progress("the hour ends for hosts, core and database");
  await Promise.all(running.map(({ collector }) => collector.stop()));
  const endMs = hour + hourMs;
  const aheadMs = endMs + 60_000 - context.clock.now();
  await restartCore(lab, aheadMs);
  for (const { collector } of running) collector.start(clockAheadFlags(aheadMs));
  const identities = running.map(({ collector }) => collector.identity);
  await waitUntil({ what: "the hosts have stated the hour", ...context }, async () => {
    const rows = await sql`
      select distinct host_id from ingest_account
      where host_id in ${sql(identities)} and refused is null and to_at >= ${new Date(endMs).toISOString()}::timestamptz`;
    return rows.length === running.length || undefined;
  });
  await restartCore(lab, aheadMs + graceMs);
  // Core states one hour a minute, and may have to state the one before.
  await waitUntil(
    { what: "core has stated the hour", timeoutMs: 240_000, ...context },
    async () => {
      const rows =
        await sql`select 1 from completeness_statement where hour = ${new Date(hour).toISOString()}::timestamptz`;
      return rows.length > 0 || undefined;
    },
  );
};

const restartCore = async (lab: StoryLab, aheadMs: number): Promise<void> => {
  await lab.kill();
  await moveDatabaseClock(lab.sql, aheadMs);
  lab.start({ nodeFlags: clockAheadFlags(aheadMs) });
  await lab.ready();
};
