import { globSync } from "node:fs";
import { expect, it, onTestFinished } from "vitest";
import { destroyClient, openCopyClient } from "#functions/store/ingest/copy-transaction.ts";
import { systemClock } from "#kit/clock.ts";
import openApi from "#proto/openapi.json" with { type: "json" };
import { driveFleet } from "#scripts/fleet-sim/drive/drive-fleet.ts";
import { createNodeWire } from "#scripts/fleet-sim/drive/node-wire.ts";
import { prepareIngestCore } from "#scripts/lab/ingest-core.ts";
import { bridgeTokenOf } from "#scripts/lab/operator-api.ts";
import { seedPeople } from "#scripts/lab/people.ts";
import { openEmbeddedDatabase } from "#scripts/postgres/embedded-database.ts";
import { programFile } from "../support/program.ts";

/*
 * PostgreSQL as a distribution delivers it, with its compiler of plans (JIT), which the embedded one of the other tests lacks. In no PATH:
 * Debian has a folder for each version.
 */
const bin = globSync("/usr/lib/postgresql/*/bin").sort().at(-1);
const secret = "a-test-secret-of-more-than-32-bytes";
const header = "x-client-cert";

it.skipIf(bin === undefined)(
  "W2: runs no statement on Debian's PostgreSQL for more than 20 ms in the mean",
  async () => {
    const cleanup = new AsyncDisposableStack();
    onTestFinished(() => cleanup.disposeAsync());
    const settings = { shared_preload_libraries: "pg_stat_statements" };
    const {
      url: databaseUrl,
      db,
      sql,
    } = cleanup.use(await openEmbeddedDatabase({ bin, settings }));
    await sql`create extension pg_stat_statements`;
    const env = {
      SVC_AUTH_TOKEN_SECRET: secret,
      SVC_ENROLLMENT_CLIENT_CERT_HEADER: header,
      SVC_HEARTBEAT_INTERVAL: "1s",
      SVC_INGEST_REQUIRE_ENROLLMENT: "true",
    };
    const lab = await prepareIngestCore(databaseUrl, {
      env,
      program: programFile("functions/main.ts"),
    });
    cleanup.defer(() => lab.remove());
    const core = await lab.start();
    cleanup.defer(() => void core.process.kill());
    await seedPeople(db, systemClock.now());
    const url = `http://127.0.0.1:${core.port}`;
    const bearer = () => bridgeTokenOf(secret, "admin");
    const wire = createNodeWire({
      api: { url, caPem: undefined },
      management: { header },
      ingest: { url: `https://localhost:${core.ingestPort}`, caPem: lab.caPem },
      connectionsMax: 16,
    });
    cleanup.defer(() => wire.close());
    const until = new AbortController();
    const { keep } = await driveFleet({
      scenario: "fleet-100",
      seed: 7,
      hosts: 300,
      durationSeconds: 8,
      run: "debian",
      wire: {
        ...wire,
        // Each call takes a connection: each host forwards its first envelope only.
        forward: async (beacon, credentials) =>
          void (beacon.sequence === 1 && (await wire.forward?.(beacon, credentials))),
      },
      clock: systemClock,
      concurrency: 16,
      operatorToken: bearer,
      bootstrap: null,
      withDatabase: null,
      signal: until.signal,
      progress: () => undefined,
    });
    const countReports = async () =>
      (
        await sql`select sum(calls)::int as calls from pg_stat_statements where query like '%with reports as%'`
      )[0]?.calls;
    const before = await countReports();
    // A new session plans for reports that change, as after a restart of core. The former ones have planned for first reports.
    await sql`select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'svc-server%'
    and pid <> pg_backend_pid()`;
    const kept = keep(until.signal).catch(() => undefined);
    await expect.poll(countReports).toBeGreaterThan(before + 100);
    until.abort();
    await kept;

    const [host] = await sql`select id from collector_identity limit 1`;
    const pages = Object.entries(openApi.paths).flatMap(([path, operations]) =>
      "get" in operations ? [path] : [],
    );
    for (const page of pages) {
      const path = page.replace(/(hosts|health|identities)\/\{\w+\}/, `$1/${host?.id}`);
      // Other paths name something that this fleet has not, need a parameter, or are of parts that this core has not.
      if (/\{|comparison|health\/export|chat|^\/(readyz\/|metrics)/.test(path)) continue;
      const response = await fetch(url + path, {
        headers: { Authorization: `Bearer ${await bearer()}` },
      });
      const text = await response.text();
      expect({ path, status: response.status, text }).toMatchObject({ status: 200 });
    }

    const rows = await sql`
    select calls::int, mean_exec_time::float8 as mean, max_exec_time::float8 as max, stddev_exec_time::float8 as deviation, query
    from pg_stat_statements where calls >= 100 order by mean desc`;
    expect(rows.length).toBeGreaterThan(10);
    expect(rows.filter(({ mean }) => mean > 20)).toEqual([]);

    const explain = `load 'auto_explain'; set auto_explain.log_min_duration = 0; set auto_explain.log_nested_statements = on;
    set auto_explain.log_level = notice`;
    const client = await openCopyClient(databaseUrl, explain);
    const plans: string[] = [];
    client.on("notice", ({ message = "" }) => plans.push(message));
    await client.query(
      "update collector_health set boot_id = 'other'; update ingest_host set last_envelope_at = now()",
    );
    destroyClient(client);
    expect(
      plans.filter((plan) => /INSERT INTO fleet_status|core_session/.test(plan)).length,
    ).toBeGreaterThan(100);
    // What the planner adds for a kind of scan or join that is disabled, when it finds no other.
    expect(plans.filter((plan) => /cost=1\d{10}/.test(plan))).toEqual([]);
  },
);
