import { exportSPKI, generateKeyPair, SignJWT } from "jose";
import { afterAll, describe, expect, it } from "vitest";
import { Secret } from "#kit/secret.ts";
import type { PartState } from "#proto/system/report.ts";
import { createTestClock } from "#tests/fakes/clock.ts";
import { createTestLog } from "#tests/fakes/log.ts";
import { createTestCore, type TestCore, type TestCoreOptions } from "#tests/support/core.ts";
import type { Core } from "../core.ts";
import { checkLicense } from "../domain/licensing/license.ts";
import { createDatabaseClock } from "../jobs/database-clock.ts";
import { createMetrics } from "../node/metrics.ts";
import { connectDatabase } from "../store/database/database.ts";
import { SchemaMismatch } from "../store/database/migrate.ts";
import {
  clockCheck,
  databaseCheck,
  durabilityCheck,
  migrationsCheck,
  revocationCheck,
  signerCheck,
} from "./checks.ts";
import { opsRoutesOf } from "./index.ts";
import { type Check, runChecks } from "./readiness.ts";

const cores: TestCore[] = [];
const coreWith = async (env: TestCoreOptions["env"] = {}, routes?: TestCoreOptions["routes"]) => {
  const core = await createTestCore({ env, ...(routes ? { routes } : {}) });
  cores.push(core);
  return core;
};
afterAll(() => Promise.all(cores.map((core) => core.close())));

describe("access to the ops endpoints", () => {
  it("rejects every caller without configuration, even on loopback", async () => {
    const { api } = await coreWith();
    for (const path of ["/metrics", "/readyz/ingest", "/readyz/licensing"])
      expect((await api("GET", path, { from: "127.0.0.1" })).body.code).toBe("ops_access_denied");
    expect((await api("GET", "/healthz")).body).toEqual({ status: "ready", checks: [] });
  });

  it("a configured bearer token decides alone, trusted loopback or not", async () => {
    const { api } = await coreWith({
      SVC_OPS_BEARER_TOKEN: "let-me-see",
      SVC_TRUST_LOOPBACK_OPS: "true",
    });
    const status = async (bearer?: string) =>
      (await api("GET", "/metrics", bearer === undefined ? {} : { as: { bearer } })).status;
    expect([
      await status(),
      await status("let-me-se"),
      await status("let-me-see-"),
      await status("let-me-see"),
    ]).toEqual([401, 401, 401, 200]);
  });

  it("I8: trusted loopback is loopback alone, and never through a proxy on the same machine", async () => {
    const { api } = await coreWith({ SVC_TRUST_LOOPBACK_OPS: "true" });
    const status = async (from: string, headers: Record<string, string> = {}) =>
      (await api("GET", "/metrics", { from, headers })).status;
    for (const from of ["127.0.0.1", "127.8.9.10", "::1", "::ffff:127.0.0.1"])
      expect(await status(from)).toBe(200);
    for (const from of [
      "10.0.0.1",
      "128.0.0.1",
      "::2",
      "::ffff:10.0.0.1",
      "127.0.0.1.example",
      "unix",
      "",
    ])
      expect({ from, status: await status(from) }).toEqual({ from, status: 403 });
    for (const name of [
      "Forwarded",
      "X-Forwarded-For",
      "x-forwarded-host",
      "X-Forwarded-Anything",
      "Via",
    ])
      expect({ name, status: await status("127.0.0.1", { [name]: "127.0.0.1" }) }).toEqual({
        name,
        status: 403,
      });
  });

  it("/readyz is not ready while migrations are missing, and says why it cannot use a database that was put in place", async () => {
    const found = (pending: () => Promise<string[]>) => migrationsCheck(pending).find();
    expect(await found(async () => [])).toEqual({
      status: "ready",
      detail: "Every migration is applied.",
    });
    expect(await found(async () => ["0001"])).toEqual({
      status: "not_ready",
      detail: "Migrations are missing: 0001.",
    });
    const another = found(() => Promise.reject(new SchemaMismatch("another line")));
    expect(await another).toEqual({
      status: "not_ready",
      detail: "The schema does not fit: another line.",
    });
  });

  it("/readyz queries the database once for concurrent requests", async () => {
    let runs = 0;
    const find = async () => {
      runs += 1;
      await new Promise(setImmediate);
      return { status: "ready", detail: "" } as const;
    };
    const check: Check = { name: "database", find };
    const routes = (core: Core) =>
      opsRoutesOf({ ...core, metrics: null, checks: { core: [check], ingest: [], licensing: [] } });
    const { api } = await coreWith({}, routes);
    const ask = () => api("GET", "/readyz");
    expect(
      (await Promise.all(Array.from({ length: 50 }, ask))).map(({ status }) => status),
    ).toEqual(Array(50).fill(200));
    expect(runs).toBe(1);
    await ask();
    expect(runs).toBe(2);
  });

  it("/readyz is open and shows details only with ops access", async () => {
    const { api } = await coreWith({ SVC_OPS_BEARER_TOKEN: "let-me-see" });
    const anonymous = await api<{
      status: string;
      checks: { name: string; status: string; detail: string | null }[];
    }>("GET", "/readyz");
    expect(anonymous.status).toBe(200);
    expect(anonymous.body.checks.map(({ name }) => name)).toEqual([
      "database",
      "directory",
      "signer",
      "chat",
    ]);
    expect(anonymous.body.checks.every(({ detail }) => detail === null)).toBe(true);
    // Nor whether a check warns of a setting.
    expect(anonymous.body.checks.every(({ status }) => status === "ready")).toBe(true);
    const known = await api<{ checks: { name: string; status: string; detail: string }[] }>(
      "GET",
      "/readyz",
      { as: { bearer: "let-me-see" } },
    );
    expect(known.status).toBe(200);
    expect(known.body.checks).toContainEqual({
      name: "database",
      status: "ready",
      detail: expect.stringMatching(/^PostgreSQL 1\d answers and accepts writes\.$/),
    });
    expect(known.body.checks).toContainEqual({
      name: "chat",
      status: "warning",
      detail: expect.stringMatching(/^Receipts are signed with an ephemeral key: /),
    });
  });
});

describe("readiness", () => {
  it("/readyz says how many connections core opens when its role may not open them", async () => {
    const { database } = await coreWith();
    const { sql } = database.connect();
    const role = new URL(database.url).pathname.slice(1);
    await sql.unsafe(`create role ${role} login connection limit 0`);
    const limited = connectDatabase({
      url: Object.assign(new URL(database.url), { username: role }).href,
    });
    expect((await databaseCheck(limited.db).find()).detail).toContain(
      "opens up to 31: raise the limit of the role",
    );
    await limited.close();
    await sql.unsafe(`drop role ${role}`);
  });

  const tools = () => ({ clock: createTestClock(), log: createTestLog() });
  const check = (name: string, status: PartState) => ({
    name,
    find: () => ({ status, detail: name }),
  });

  it.each([
    [["ready", "ready"], "ready"],
    [["ready", "disabled"], "ready"],
    [["disabled", "disabled"], "disabled"],
    [["ready", "disabled", "not_ready"], "not_ready"],
    [["disabled", "warning"], "ready"],
    [["warning", "not_ready"], "not_ready"],
    [[], "ready"],
  ] as const)("%j together are %s", async (statuses, expected) => {
    const report = await runChecks(
      statuses.map((status, index) => check(`c${index}`, status)),
      tools(),
    );
    expect(report.status).toBe(expected);
  });

  it("D3: a check that never answers or throws is not_ready after two seconds, and its error is logged, not shown", async () => {
    const { clock, log } = tools();
    const stuck: Check = { name: "stuck", find: () => new Promise(() => undefined) };
    const broken: Check = {
      name: "broken",
      find: () => Promise.reject(new Error("password=hunter2")),
    };
    const report = runChecks([stuck, broken, check("fine", "ready")], { clock, log });
    await clock.advance(2000);
    expect((await report).checks.map(({ name, status }) => `${name} ${status}`)).toEqual([
      "stuck not_ready",
      "broken not_ready",
      "fine ready",
    ]);
    expect(JSON.stringify(await report)).not.toContain("hunter2");
    expect(log.text()).toContain("hunter2");
  });

  it("reports an unavailable database, and /readyz answers 503", async () => {
    const away = connectDatabase({
      url: "postgres://postgres@127.0.0.1:1/none",
      connectionsMax: 1,
    });
    expect(await databaseCheck(away.db).find()).toEqual({
      status: "not_ready",
      detail: "The database cannot be reached.",
    });
    await away.close(0);
  });

  it("is not ready while core's clock differs by more than five minutes from the database's", async () => {
    const { core, clock } = await coreWith();
    const databaseClock = createDatabaseClock(core.db, clock);
    for (const [minutes, status] of [
      [0, "ready"],
      [4, "ready"],
      [6, "not_ready"],
      [-6, "not_ready"],
    ] as const) {
      clock.set(Date.now() + minutes * 60_000);
      expect((await clockCheck(databaseClock).find()).status).toBe(status);
    }
    expect((await clockCheck(databaseClock).find()).detail).toMatch(
      /^Core's clock is 3\d\d s behind the database's\.$/,
    );
    expect(Math.abs(databaseClock.now() - Date.now())).toBeLessThan(30_000);
  });

  it("the database is durable, and a CA that ends too soon makes the signer not ready", async () => {
    const { core, clock } = await coreWith();
    expect(await durabilityCheck(core.db).find()).toEqual({
      status: "ready",
      detail: "Commits survive a crash: fsync is on.",
    });
    const signer = signerCheck(core);
    expect((await signer.find()).status).toBe("ready");
    clock.set(Date.UTC(2200, 0));
    expect((await signer.find()).status).toBe("not_ready");
    expect((await signerCheck({ signer: null, clock }).find()).status).toBe("disabled");
  });
});

it("warns that a revoked host can still forward", async () => {
  expect(await revocationCheck({ revocationGap: null }).find()).toEqual({
    status: "ready",
    detail: "A revoked host cannot forward.",
  });
  expect(await revocationCheck({ revocationGap: "a setting is off" }).find()).toEqual({
    status: "warning",
    detail: "a setting is off.",
  });
});

it("licensing is community without a license; with one, checks signature, expiry and number of collectors", async () => {
  const clock = createTestClock();
  const { publicKey, privateKey } = await generateKeyPair("EdDSA", { extractable: true });
  const stranger = await generateKeyPair("EdDSA");
  const publicKeyPem = await exportSPKI(publicKey);
  const exp = clock.now() / 1000 + 60;
  const sign = (claims: Record<string, unknown>, key = privateKey) =>
    new SignJWT(claims).setProtectedHeader({ alg: "EdDSA" }).sign(key);
  const judge = async (token: string, enrolled = 5) =>
    checkLicense(
      { token: new Secret(token), publicKeyPem },
      { clock, countCollectors: async () => enrolled },
    );

  expect(
    await checkLicense(null, {
      clock,
      countCollectors: () => expect.fail("called without a license"),
    }),
  ).toMatchObject({
    edition: "community",
    status: "ready",
  });
  const good = await sign({ max_collectors: 5, exp });
  expect(await judge(good)).toMatchObject({ edition: "licensed", status: "ready" });
  expect((await judge(good, 6)).detail).toBe(
    "6 collectors are enrolled, and the license covers 5.",
  );
  expect(
    (await judge(await sign({ max_collectors: 5, exp }, stranger.privateKey))).detail,
  ).toContain("does not verify");
  expect((await judge(await sign({ max_collectors: 5 }))).status).toBe("not_ready");
  expect((await judge(await sign({ max_collectors: "5", exp }))).detail).toContain(
    "max_collectors",
  );
  expect((await judge("not a token")).status).toBe("not_ready");
  await clock.advance(60_000);
  expect((await judge(good)).detail).toBe("It has expired.");
});

it("metrics count requests by route pattern, and no caller chooses a label", async () => {
  const { observe, observeIngest, observeDirectory, gauge, render } = createMetrics(
    createTestLog(),
  );
  observe.httpRequest("/v1/whoami", "GET", "200", 0.003);
  observe.httpRequest("unmatched", "X-RANDOM-1", "404", 0.001);
  observe.enroll("issued");
  observe.heartbeat("clock_skew");
  observeIngest.committed({
    envelopes: 5,
    bytes: 100,
    discarded: 2,
    rejected: ["payload_too_large"],
  });
  observeIngest.batch({ seconds: 0.01, frames: 1, rows: 2 });
  observeIngest.refused("sequence_gap");
  for (const outcome of ["synced", "held", "refused", "failed"] as const)
    observeDirectory.ended(outcome);
  observeDirectory.snapshot({ syncedAt: 1_780_000_000_000, held: 12 });
  let inFlight = 7;
  gauge("inFlightBytes", () => inFlight);
  inFlight = 8;
  const { type, content } = await render();
  expect(content).toContain("core_ingest_envelopes_total 5");
  expect(content).toContain("core_ingest_safe_raw_discarded_total 2");
  expect(content).toContain('core_ingest_rejected_total{code="payload_too_large"} 1');
  expect(content).toContain('core_ingest_refused_total{reason="sequence_gap"} 1');
  expect(content).toContain("core_ingest_commit_seconds_count 1");
  expect(content).toContain("core_ingest_in_flight_bytes 8");
  expect(content).toContain('directory_sync_total{outcome="held"} 1');
  expect(content).toContain("directory_sync_failures_total 2");
  expect(content).toContain("directory_snapshot_timestamp_seconds 1780000000");
  expect(content).toContain("directory_absences_held 12");
  expect(type).toMatch(/^text\/plain; version=0\.0\.4/);
  expect(content).toContain(
    'core_http_request_duration_seconds_count{route="/v1/whoami",method="GET",status="200"} 1',
  );
  expect(content).toContain('method="other",status="404"');
  expect(content).toContain('core_enroll_total{outcome="issued"} 1');
  expect(content).toContain('core_heartbeat_total{outcome="clock_skew"} 1');
  expect(content).toContain("nodejs_eventloop_lag_p99_seconds");
  expect(content).not.toContain("X-RANDOM-1");
});
