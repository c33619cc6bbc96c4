import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { systemClock } from "#kit/clock.ts";
import { systemEntropy } from "#kit/entropy.ts";
import { awaitPeople } from "#scripts/lab/await-people.ts";
import { issueClient } from "#scripts/lab/ca/issue-client.ts";
import { createLabPki, readCredentialFiles } from "#scripts/lab/ca/pki.ts";
import { labCoreEnvironment } from "#scripts/lab/core-environment.ts";
import { clientCertificateHeader, startLabEdge } from "#scripts/lab/core-process.ts";
import { startDirectory } from "#scripts/lab/lab-core.ts";
import {
  bridgeTokenOf,
  createOperatorApi,
  createPolicyWithToken,
  type UserIds,
} from "#scripts/lab/operator-api.ts";
import { waitUntil } from "#scripts/lab/wait-until.ts";
import { connectNodeDatabase } from "#scripts/postgres/connect-node-database.ts";
import { startEmbeddedPostgres } from "#scripts/postgres/embedded-postgres.ts";
import { openTemporaryFolder } from "#scripts/temporary-folder.ts";
import { logged, type Program, startProgram } from "#tests/support/program.ts";
import { checkStored, type NumberedLoad, startNumberedLoad } from "../chaos/load.ts";
import { judge, readStoredQueues } from "../chaos/stored-queues.ts";
import { end, enrollHost, identityPrefix, type Revision } from "./upgraded-host.ts";

/** For a busy machine: the last statements read everything that was stored. */
const statementTimeoutMs = 180_000;
/** Three cores are connected while one is replaced by another. */
const connectionsMax = "200";

/** A core that serves. */
export interface UpgradeCore {
  program: Program;
  coreUrl: string;
  httpPort: number;
  ingestPort: number;
}

/** A host whose collector can be replaced by that of another revision. */
export type UpgradedHost = Awaited<ReturnType<typeof enrollHost>>;

/** A database with the cores and hosts of two revisions. */
export type UpgradeLab = Awaited<ReturnType<typeof startUpgradeLab>>;

/** Starts an empty database, a lab's CA and a directory; `cleanup` stops them, and what is started later. */
export const startUpgradeLab = async (cleanup: AsyncDisposableStack) => {
  const { path: dir } = cleanup.use(await openTemporaryFolder("upgrade-run"));
  const server = await startEmbeddedPostgres({ settings: { max_connections: connectionsMax } });
  cleanup.defer(() => server.stop("immediate"));
  const lab = join(dir, "lab");
  const pki = await createLabPki({ dir: lab });
  const authTokenSecret = systemEntropy.bytes(32).toHex();
  const directory = await startDirectory(dir, cleanup);
  const options = {
    url: server.url(),
    deadlineMs: statementTimeoutMs,
  };
  const { sql, close } = connectNodeDatabase(options);
  cleanup.defer(() => close(1));
  const signal = AbortSignal.timeout(900_000);
  const until = <Found>(what: string, probe: () => Promise<Found | undefined>) =>
    waitUntil({ what, clock: systemClock, signal }, probe);
  const broken: string[] = [];
  const expect = (holds: boolean, fault: string) => {
    if (!holds) broken.push(fault);
  };

  const startCore = async (revision: Revision, env: Record<string, string> = {}) => {
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
        ...env,
      },
      revision.node,
    );
    cleanup.defer(() => end(program));
    const ready = await logged(program, "ready");
    const httpPort = Number(ready.port);
    const ingestPort = Number(ready.ingest_port);
    return { program, coreUrl: `http://127.0.0.1:${httpPort}`, httpPort, ingestPort };
  };
  const isReady = async ({ coreUrl }: UpgradeCore, name: string) => {
    for (const path of ["/readyz", "/readyz/ingest"]) {
      const { status } = await fetch(coreUrl + path);
      expect(status === 200, `${name}: ${path} answers ${status}`);
    }
  };
  const edgeOf = async (coreUrl: string) => {
    const edge = await startLabEdge(pki, { coreUrl });
    cleanup.defer(() => edge.close());
    return edge.url;
  };

  let people: Promise<UserIds> | undefined;
  const userIds = () => {
    people ??= awaitPeople(sql, { clock: systemClock, signal });
    return people;
  };
  const apiOf = async ({ coreUrl }: Pick<UpgradeCore, "coreUrl">) =>
    createOperatorApi(coreUrl, authTokenSecret, await userIds());
  /** Signs an operator in, as web does once the identity provider has answered. */
  const signIn = async ({ coreUrl }: Pick<UpgradeCore, "coreUrl">) => {
    const { status } = await fetch(`${coreUrl}/v1/operator/sign-ins`, {
      method: "POST",
      headers: {
        Authorization: `Bearer ${await bridgeTokenOf(authTokenSecret, "reader", await userIds())}`,
        "Content-Type": "application/json",
      },
      body: JSON.stringify({ outcome: "success", remote_addr: "127.0.0.1" }),
      signal: AbortSignal.timeout(10_000),
    });
    if (status !== 204) throw new Error(`a sign-in answers ${status}`);
  };
  const enroll = async (
    name: string,
    revision: Revision,
    through: { coreUrl: string; ingestPort: number },
  ) => {
    const policy = { name: crypto.randomUUID(), allowed_identity_prefixes: [identityPrefix] };
    const { token } = await createPolicyWithToken(await apiOf(through), policy);
    const host = await enrollHost(
      {
        dir: join(dir, name),
        name,
        token,
        pki,
        edgeUrl: await edgeOf(through.coreUrl),
        ingestPort: through.ingestPort,
      },
      revision,
    );
    cleanup.defer(() => host.end());
    host.start(revision);
    return host;
  };
  const isServed = ({ identity }: UpgradedHost) =>
    until(`${identity} is served`, async () => {
      // Versions up to 0.3.0 have no blocks.
      const [blocks] = await sql`select to_regclass('ingest_block') is not null as present`;
      const [row] = await sql`
        select 1 from collector_health join collector_identity on identity_id = id where identity = ${identity} and (
          exists (select 1 from ingest_envelope where host_id = ${identity})
          ${blocks?.present ? sql`or exists (select 1 from ingest_block where host_id = ${identity})` : sql``})`;
      return row && identity;
    });
  const assign = async (host: UpgradedHost, core: Pick<UpgradeCore, "coreUrl">) => {
    const [row] = await sql`select id from collector_identity where identity = ${host.identity}`;
    return host.assign(await apiOf(core), row?.id ?? "");
  };
  /** Waits for a heartbeat since a time of the database, with a config if one is given; returns the drift of the host. */
  const heartbeat = (
    { identity }: UpgradedHost,
    { since, config }: { since: string; config?: string },
  ) =>
    until(`${identity} reports${config === undefined ? "" : " its config"}`, async () => {
      // A heartbeat that repeats the last report moves its time in "fleet_status" alone, which the previous version does not have.
      const [found] =
        await sql`select coalesce(to_regclass('fleet_status'), 'collector_health')::text as name`;
      const [row] = await sql`
        select f.drift from fleet_host f join collector_health h using (identity_id) join ${sql(found?.name ?? "")} s using (identity_id)
        where f.identity = ${identity} and s.last_heartbeat_at > ${since}::timestamptz
          ${config === undefined ? sql`` : sql`and h.running_config_hash = ${config}`}`;
      return row?.drift;
    });

  const client = async (identity: string) =>
    readCredentialFiles(await issueClient({ dir: lab, identity }));
  const caPem = await readFile(pki.serverCaFile, "utf8");
  const send = (names: readonly string[], port: number) =>
    startNumberedLoad(
      names.map((name) => identityPrefix + name),
      { port, caPem, client },
    );
  /** Counts what is stored of these hosts. */
  const countOf = async (identities: readonly string[]) => {
    const [row] = await sql`
      select (select count(*) from ingest_envelope where host_id in ${sql([...identities])})::int
        + (select coalesce(sum(envelopes), 0) from ingest_block where host_id in ${sql([...identities])})::int as count`;
    return row?.count ?? 0;
  };
  /** Stops the load, and compares what was acknowledged or accepted with what is stored. */
  const judgeAll = async (hosts: readonly UpgradedHost[], loads: readonly NumberedLoad[]) => {
    for (const { load } of hosts) load.stop();
    await Promise.all(loads.map((load) => load.finish()));
    const { acked, stored, missing, duplicates, disordered } = await checkStored(
      sql,
      loads.flatMap(({ queues }) => queues),
    );
    const total = { acked, stored, missing, duplicates, disordered };
    const owed = hosts.map((host) => ({
      hostId: host.identity,
      owed: host.owed(),
      forked: new Set<string>(),
      isCopied: false,
    }));
    const records = owed.reduce((sum, host) => sum + host.owed.size, 0);
    const identities = owed.map(({ hostId }) => hostId);
    // What stays missing is judged.
    await until(
      "everything is stored",
      async () => (await countOf(identities)) >= records || undefined,
    ).catch(() => {});
    total.acked += records;
    for (const host of owed) {
      // Each for itself: lines of several hosts have the same names.
      const judged = judge(await readStoredQueues(sql, [host.hostId]), [], [host]);
      total.stored += judged.stored;
      for (const count of ["missing", "duplicates", "disordered"] as const)
        total[count] += judged[count];
      broken.push(...judged.faults);
    }
    for (const count of ["missing", "duplicates", "disordered"] as const)
      expect(total[count] === 0, `${total[count]} ${count}`);
    return total;
  };
  const now = async () => (await sql`select clock_timestamp()::text as now`)[0]?.now ?? "";

  return {
    cleanup,
    sql,
    until,
    expect,
    broken,
    now,
    startCore,
    isReady,
    apiOf,
    signIn,
    enroll,
    isServed,
    assign,
    heartbeat,
    send,
    judgeAll,
  };
};
