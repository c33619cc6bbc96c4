import { globSync } from "node:fs";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { openDatabaseSocket } from "../../functions/node/database/database-socket.ts";
import { connectDatabase } from "../../functions/store/database/database.ts";
import { destroyClient, openCopyClient } from "../../functions/store/ingest/copy-transaction.ts";
import { systemClock } from "../../kit/clock.ts";
import { driveFleet } from "../../scripts/fleet-sim/drive/drive-fleet.ts";
import { createNodeWire } from "../../scripts/fleet-sim/drive/node-wire.ts";
import type { Wire } from "../../scripts/fleet-sim/drive/wire.ts";
import { createLabPki } from "../../scripts/lab/ca/pki.ts";
import { labCoreEnvironment } from "../../scripts/lab/core-environment.ts";
import { bridgeTokenOf } from "../../scripts/lab/operator-api.ts";
import { seedPeople } from "../../scripts/lab/people.ts";
import { startEmbeddedPostgres } from "../../scripts/postgres/embedded-postgres.ts";
import { logged, startProgram, stopProgram } from "../support/program.ts";

/*
 * PostgreSQL as a distribution delivers it, with its compiler of plans (JIT), which the embedded one of the other tests lacks. In no PATH:
 * Debian has a folder for each version.
 */
const [program] = globSync("/usr/lib/postgresql/*/bin/postgres").sort().reverse();
const secret = "a-test-secret-of-more-than-32-bytes";
const header = "x-client-cert";

interface Operation {
  tags: readonly string[];
  parameters?: readonly { in: string; required?: boolean }[];
}
const { paths } = JSON.parse(await readFile("proto/openapi.json", "utf8")) as {
  paths: Record<string, { get?: Operation }>;
};

describe.skipIf(program === undefined)("core on Debian's PostgreSQL with its defaults", () => {
  const cleanup = new AsyncDisposableStack();
  afterAll(() => cleanup.disposeAsync());

  it("W2: runs no statement of a hundred calls for more than 20 ms in the mean", async () => {
    const dir = await mkdtemp(join(tmpdir(), "svc-debian-"));
    cleanup.defer(() => rm(dir, { recursive: true, force: true }));
    const postgres = await startEmbeddedPostgres({
      ...(program ? { bin: dirname(program) } : {}),
      settings: { shared_preload_libraries: "pg_stat_statements" },
    });
    cleanup.defer(() => postgres.stop("immediate"));
    const databaseUrl = postgres.url();
    const { db, sql, close } = connectDatabase({ url: databaseUrl, openSocket: openDatabaseSocket });
    cleanup.defer(() => close());
    await sql`create extension pg_stat_statements`;
    const pki = await createLabPki({ dir: join(dir, "pki"), clock: systemClock });
    const core = startProgram("functions/main.ts", [], {
      ...labCoreEnvironment({ databaseUrl, pki, authTokenSecret: secret }),
      SVC_ENROLLMENT_CLIENT_CERT_HEADER: header,
      SVC_HEARTBEAT_INTERVAL: "1s",
    });
    cleanup.defer(async () => void (await stopProgram(core)));
    const ready = await logged(core, "ready");
    await seedPeople(db, systemClock.now());
    const url = `http://127.0.0.1:${ready.port}`;
    const bearer = () => bridgeTokenOf(secret, "admin");
    const wire = createNodeWire({
      api: { url, caPem: undefined },
      management: { header },
      ingest: { url: `https://localhost:${ready.ingest_port}`, caPem: await readFile(pki.serverCaFile, "utf8") },
      connectionsMax: 16,
    });
    cleanup.defer(() => wire.close());
    // Each call takes a connection: each host forwards its first envelope only.
    const forward: Wire["forward"] = async (beacon, credentials) => {
      if (beacon.sequence === 1) await wire.forward?.(beacon, credentials);
    };
    const until = new AbortController();
    const { keep } = await driveFleet({
      scenario: "fleet-100",
      seed: 7,
      hosts: 300,
      durationSeconds: 8,
      run: "debian",
      wire: { ...wire, forward },
      clock: systemClock,
      concurrency: 16,
      operatorToken: bearer,
      bootstrap: null,
      withDatabase: null,
      signal: until.signal,
      progress: () => undefined,
    });
    const callsOf = async (text: string): Promise<number> =>
      (await sql`select sum(calls)::int as calls from pg_stat_statements where query like ${text}`)[0]?.calls;
    const heartbeats = "%with reports as materialized%";
    const before = await callsOf(heartbeats);
    // A new session plans for reports that change, as after a restart of core. The former ones have planned for first reports.
    await sql`select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'svc-server%'
      and pid <> pg_backend_pid()`;
    const kept = keep(until.signal).catch(() => undefined);
    await expect.poll(() => callsOf(heartbeats)).toBeGreaterThan(before + 100);
    until.abort();
    await kept;

    const read = async (path: string): Promise<string> => {
      const response = await fetch(url + path, { headers: { Authorization: `Bearer ${await bearer()}` } });
      const text = await response.text();
      expect({ path, status: response.status, text }).toMatchObject({ status: 200 });
      return text;
    };
    // Each route that a page reads, with the first item of the list that its path names.
    for (const [path, { get }] of Object.entries(paths)) {
      if (get === undefined || /chat|ops/.test(String(get.tags))) continue;
      if (get.parameters?.some(({ required, in: at }) => required && at === "query")) continue;
      const [, collection] = /([\w-]+)\/\{\w*id\}/.exec(path) ?? [];
      const list = collection && (/hosts|health/.test(collection) ? "identities" : collection);
      const { items } = list ? JSON.parse(await read(`/v1/collector/${list}?limit=1`)) : { items: [] };
      const named = path.replace(/\{\w*id\}/, items[0]?.id ?? "{}");
      if (!named.includes("{")) await read(named);
    }

    const rows = await sql<{ query: string; mean: number }[]>`
      select calls::int, round(mean_exec_time::numeric, 2)::float8 as mean, round(max_exec_time::numeric, 2)::float8 as max,
        round(stddev_exec_time::numeric, 2)::float8 as deviation, left(query, 200) as query
      from pg_stat_statements where calls >= 100 order by mean_exec_time desc`;
    const isKnown = (part: string) => rows.some(({ query }) => query.includes(part));
    expect(
      ["reports as materialized", "touch_hosts", "enrollment_reservation"].filter((part) => !isKnown(part)),
    ).toEqual([]);
    expect(rows.filter(({ mean }) => mean > 20)).toEqual([]);

    const client = await openCopyClient(
      databaseUrl,
      `load 'auto_explain'; set auto_explain.log_min_duration = 0; set auto_explain.log_nested_statements = on;
        set auto_explain.log_level = notice`,
    );
    const plans: string[] = [];
    client.on("notice", ({ message = "" }) => plans.push(message));
    for (const change of ["collector_health set boot_id = 'other'", "ingest_host set last_envelope_at = now()"])
      await client.query(`update ${change}`);
    destroyClient(client);
    expect(plans.filter((plan) => /INSERT INTO fleet_status|core_session/.test(plan)).length).toBeGreaterThan(100);
    // What the planner adds for a kind of scan or join that is disabled, when it finds no other.
    expect(plans.filter((plan) => /cost=1\d{10}/.test(plan))).toEqual([]);
  });
});
