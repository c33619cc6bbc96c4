import { sql } from "drizzle-orm";
import { afterAll, describe, expect, it, onTestFinished } from "vitest";
import { confirmRetention } from "#functions/domain/retention/confirm-retention.ts";
import { addGap } from "#functions/store/ingest/gaps.ts";
import { recordClock } from "#functions/store/retention/retention-clock.ts";
import type { FleetHealthReport } from "#proto/fleet-health/report.ts";
import { createTestCsr, createTestKey } from "#scripts/lab/ca/test-pki.ts";
import { heartbeatBody } from "#scripts/lab/heartbeat-body.ts";
import {
  createTestToken,
  manage,
  sendHeartbeat,
  type TestCollector,
} from "#tests/support/collector.ts";
import { createTestCore } from "#tests/support/core.ts";

const minute = 60_000;
const hour = 60 * minute;
const day = 24 * hour;

/** The parts of a heartbeat that tests change, and their troubles. */
const { collector, config, queue, renewal } = heartbeatBody(0) as Record<string, object>;
const invalid = { config: { valid: false, errors: ["bad"], running_config_hash: null } };
const atRisk = { queue: { ...queue, at_risk: true } };
const failed = { renewal: { ...renewal, status: "failed", last_error: "reenroll" } };
const version = (text: string) => ({ collector: { ...collector, version: text } });

const olderCursor =
  "fcT-TaMC3oXA36OoIZHakVsiMjAyNi0wNi0wMSAxMjowMDowMCswMCIsIjAxOTIwMDAwLTAwMDAtNzAwMC04MDAwLTAwMDAwMDAwMDAwMSJd";

/** A core of its own, with hosts that are easily brought into each state. */
const fleet = async () => {
  const test = await createTestCore({
    env: { SVC_COLLECTOR_MIN_VERSION: "1.0.0", SVC_OTELCOL_MIN_VERSION: "0.140.0" },
  });
  const { enroll } = await createTestToken(test);
  return {
    ...test,
    enroll,
    report: (query = "") => test.auditor.read<FleetHealthReport>(`/v1/collector/health${query}`),
  };
};

/** A fleet for one test with a host, and the row of a host. */
const startFleet = async () => {
  const test = await fleet();
  onTestFinished(() => test.close());
  const host = await test.enroll("web-1");
  const beat = async (over: object = {}, by = host) =>
    expect((await sendHeartbeat(test, by, { ...over })).status).toBe(200);
  /** Sends a heartbeat some minutes later. */
  const beatAfter = async (minutes: number, over: object = {}) => {
    await test.clock.advance(minutes * minute);
    await beat(over);
  };
  const changedWithin = async (seconds: number) =>
    (await test.report(`?changed_within_seconds=${seconds}`)).items.length === 1;
  const rowOf = async ({ identity }: TestCollector = host) =>
    (await test.report(`?identity=${encodeURIComponent(identity)}`)).items[0];
  const state = async () => (await rowOf())?.state;
  return { test, rowOf, state, host, beat, beatAfter, changedWithin };
};

describe("the states of the health report", () => {
  it("is enrolling for fifteen minutes, then stale, healthy with the first heartbeat, and stale three intervals later", async () => {
    const { test, rowOf, state, beat } = await startFleet();
    expect(await rowOf()).toMatchObject({
      state: "enrolling",
      last_heartbeat_at: null,
      last_envelope_at: null,
    });
    await test.clock.advance(15 * 60_000 - 1);
    expect(await state()).toBe("enrolling");
    await test.clock.advance(1);
    expect(await rowOf()).toMatchObject({ state: "stale", conditions: [{ state: "stale" }] });
    await beat();
    expect(await rowOf()).toMatchObject({ state: "healthy", conditions: [] });
    await test.clock.advance(180_000);
    expect(await state()).toBe("healthy");
    await test.clock.advance(1);
    const evidence = "last heartbeat 180 s ago, threshold 180 s";
    expect((await rowOf())?.conditions).toMatchObject([{ evidence, since: test.clock.iso(-1) }]);
  });

  it("shows what the heartbeat reports: invalid config, queue at risk, drops, failed renewal", async () => {
    const { test, state, beat } = await startFleet();
    const stateAfter = async (over: object) => {
      await test.clock.advance(10_000);
      await beat(over);
      return state();
    };
    expect(await stateAfter({})).toBe("healthy");
    expect(await stateAfter(invalid)).toBe("config_invalid");
    expect(await stateAfter(atRisk)).toBe("queue_at_risk");
    const losses = {};
    for (const loss of [
      { dropped_records_total: 5 },
      { dead_letters: 1 },
      { file_gaps_total: 1, file_gap_bytes_total: 900 },
    ]) {
      Object.assign(losses, loss);
      expect(await stateAfter({ queue: { ...queue, ...losses } })).toBe("queue_at_risk");
      expect(await stateAfter({ queue: { ...queue, ...losses } })).toBe("healthy");
    }
    await test.clock.advance(60_000);
    expect(await stateAfter(failed)).toBe("renewal_failed");
    expect(await stateAfter({ renewal: { ...renewal, status: "retrying" } })).toBe("healthy");
  });

  it("applies to an agent that speaks OpAMP its own minimum version, and neither queue nor forwarding", async () => {
    const { test, rowOf, beat } = await startFleet();
    await beat();
    const agent = { agent: "svc-collector", agent_name: null, forwarding: "never" };
    expect(await rowOf()).toMatchObject({ ...agent, queue: { bytes: 4096 } });
    // As its report by OpAMP leaves them.
    await test.db.execute(sql`update fleet_status set agent = 'otelcol', version = '0.149.0'`);
    await test.db.execute(sql`update collector_health set agent_name = 'otelcol-contrib'`);
    const row = await rowOf();
    expect(row).toMatchObject({
      agent: "otelcol",
      agent_name: "otelcol-contrib",
      forwarding: null,
      state: "healthy",
    });
    expect(new Set(Object.values(row?.queue ?? {}))).toEqual(new Set([null]));
    await test.db.execute(sql`update fleet_status set version = '0.139.0'`);
    const evidence = "the version is not SemVer 0.140.0 or later";
    expect((await rowOf())?.conditions).toMatchObject([{ state: "unsupported_version", evidence }]);
    const found = async (query: string) => (await test.report(query)).items.length;
    expect(await found("?agent=otelcol")).toBe(1);
    expect(await found("?not_agent=otelcol")).toBe(0);
  });

  it("W3: shows why a queue cannot be written, since when and where, although it is nearly empty", async () => {
    const { test, rowOf, beat } = await startFleet();
    const since = "2026-06-01T11:59:30.000Z";
    const unwritable = {
      code: "queue_unwritable",
      since,
      reason: "database or disk is full",
      path: "/var/lib/queue",
    };
    await beat({
      conditions: [unwritable, { code: "source_failed", since, reason: "file: EIO" }],
    });
    const evidence = `queue_unwritable since ${since}: database or disk is full (/var/lib/queue); source_failed since ${since}: file: EIO`;
    const conditions = [{ evidence }];
    expect(await rowOf()).toMatchObject({ state: "queue_at_risk", conditions });
    // As watches and the metric of the alert count it.
    expect((await test.report("?condition=queue_at_risk")).items).toHaveLength(1);
    await test.clock.advance(10_000);
    await beat();
    expect(await rowOf()).toMatchObject({ state: "healthy", conditions: [] });
  });

  it("Q12: shows what a database restore lost, at risk until the next heartbeat and as a figure for ever", async () => {
    const { test, rowOf, host, beat } = await startFleet();
    const silent = await test.enroll("silent");
    const other = await test.enroll("other");
    for (const each of [host, other]) await beat({}, each);
    const at = new Date(test.clock.now() + 5000);
    for (const { identity } of [host, host, silent]) await addGap(test.db, identity, 1234n, at);
    const gap = { ranges: 2, records_max: 2468, last_at: at.toISOString() };
    expect(await rowOf()).toMatchObject({
      ingest_gap: gap,
      conditions: [
        {
          state: "queue_at_risk",
          since: at.toISOString(),
          evidence:
            "records were dropped, rejected or lost since the previous heartbeat, 0 dropped and 0 dead letters in all, up to 2468 lost in a database restore",
        },
      ],
    });
    expect(await rowOf(silent)).toMatchObject({ ingest_gap: { ranges: 1, records_max: 1234 } });
    expect(await rowOf(other)).toMatchObject({ ingest_gap: null, state: "healthy" });
    await test.clock.advance(60_000);
    await beat();
    expect(await rowOf()).toMatchObject({ state: "healthy", ingest_gap: gap });
  });

  it("dates a condition from the first of the consecutive heartbeats that report it", async () => {
    const { test, rowOf, beat } = await startFleet();
    const ill = { ...version("0.9.0"), ...invalid, ...atRisk, ...failed };
    const sinceAfter = async (over: object) => {
      await test.clock.advance(60_000);
      await beat(over);
      const { conditions = [] } = (await rowOf()) ?? {};
      return conditions.map(({ since }) => new Date(since).getTime());
    };
    const first = await sinceAfter(ill);
    expect(first).toEqual(Array(4).fill(test.clock.now()));
    expect(await sinceAfter(ill)).toEqual(first);
    expect(await sinceAfter({})).toEqual([]);
    expect(await sinceAfter(ill)).toEqual(Array(4).fill(test.clock.now()));
  });

  it("compares versions as SemVer, and treats other versions as unsupported", async () => {
    const { test, state, beat } = await startFleet();
    for (const [text, expected] of Object.entries({
      "1.10.0": "healthy",
      "1.0.0": "healthy",
      "1.0.0-rc.1": "unsupported_version",
      "0.9.9": "unsupported_version",
      "v1.5.0": "unsupported_version",
      latest: "unsupported_version",
    })) {
      await test.clock.advance(11_000);
      await beat(version(text));
      expect(await state(), text).toBe(expected);
    }
  });

  it("lists every condition and derives the state by precedence, `revoked` first", async () => {
    const { test, rowOf, host, beat } = await startFleet();
    await beat({ ...version("0.1.0"), ...invalid, ...atRisk });
    await test.clock.advance(20 * day);
    const names = async () => (await rowOf())?.conditions.map(({ state }) => state).join(" ");
    expect(await names()).toBe(
      "stale cert_expiring config_invalid unsupported_version queue_at_risk",
    );
    await test.clock.advance(2 * day);
    const expired = { state: "renewal_failed", certificate: { status: "expired" } };
    expect(await rowOf()).toMatchObject(expired);
    await test.revoke(host.identityId);
    expect(await names()).toMatch(/^revoked /);
  });

  it("is cert_expiring with less than a quarter of the lifetime left, until there is a successor", async () => {
    const { test, rowOf, state, host, beat } = await startFleet();
    await test.clock.advance(15.75 * day);
    await beat();
    expect(await state()).toBe("healthy");
    await test.clock.advance(1);
    expect(await state()).toBe("cert_expiring");
    const renewed = await manage(test, host, "renew", {
      sent_at: test.clock.iso(),
      csr_pem: await createTestCsr({ key: await createTestKey(), uri: host.identity }),
      collector_version: "1.4.0",
    });
    expect(renewed.status).toBe(200);
    expect(await rowOf()).toMatchObject({
      state: "healthy",
      certificate: { id: host.certificateId },
      successor: { id: renewed.body.certificate_id },
    });
  });
});

describe("the health report", async () => {
  const test = await fleet();
  afterAll(() => test.close());
  const names = ["a_1", "a%2", "b3", "b4", "c5"];
  await Promise.all(names.map((name) => test.enroll(name)));

  it("says how far each export is behind, once there is one", async () => {
    expect(await test.report()).not.toHaveProperty("exports");
    await test.db.execute(sql`
      insert into export_position (name, position, position_at, lease_until, epoch, exported, rejected_items, lost, last_error, updated_at)
      values ('loki', 0, 'epoch', 'epoch', 0, 0, 0, 0, 'HTTP 503', now())`);
    expect(await test.report()).toMatchObject({
      exports: [{ name: "loki", running: false, dead_letters: 0, last_error: "HTTP 503" }],
    });
  });

  it("K3: names a jump of the database's clock until an operator confirms it", async () => {
    expect(await test.report()).not.toHaveProperty("retention_paused");
    const before = Date.UTC(2026, 0, 1);
    const after = Date.UTC(2026, 1, 10);
    for (const seen of [before, after]) await recordClock(test.db, new Date(seen));
    expect(await test.report()).toMatchObject({
      retention_paused: {
        jumped_from: "2026-01-01T00:00:00.000Z",
        jumped_to: "2026-02-10T00:00:00.000Z",
        until: "2026-02-11T00:00:00.000Z",
      },
    });
    expect(await confirmRetention(test.core, "ada")).toMatchObject({ from: new Date(before) });
    expect(await test.report()).not.toHaveProperty("retention_paused");
    const display = "svc-server confirm-clock (ada)";
    expect(await test.events("action=retention.confirm")).toMatchObject([{ actor: { display } }]);
  });

  it("I6: searches for % and _ literally, in any case", async () => {
    const found = async (q: string) =>
      (await test.report(`?q=${encodeURIComponent(q)}`)).items.map((row) => row.device_id);
    expect(await found("A_")).toEqual(["a_1"]);
    expect(await found("%")).toEqual(["a%2"]);
    expect(await found("\\")).toEqual([]);
    expect((await found("LINUX/")).length).toBe(5);
  });

  it("I6: answers 422 to a tampered or foreign cursor, an unknown sort and an unknown parameter", async () => {
    const { next_cursor } = await test.report("?limit=1");
    const tampered = `${next_cursor?.slice(0, -2)}AA`;
    for (const query of [
      `limit=1&cursor=${tampered}`,
      `limit=1&order=desc&cursor=${next_cursor}`,
      "cursor=%00",
      // Of the version of core that put the oldest break first.
      `sort=severity&cursor=${olderCursor}`,
      "sort=identity;drop table person",
      "limit=0",
      "limit=1001",
      "limit=1&limit=2",
      "stat=healthy",
      "state=well",
      "q=%00",
    ]) {
      const { body } = await test.auditor.get(`/v1/collector/health?${query}`);
      expect(body.code, query).toBe("validation_failed");
    }
  });

  it("any number of slow reports delays no other request", async () => {
    const reports: Promise<{ status: number }>[] = [];
    await test.database.connect().db.transaction(async (tx) => {
      await tx.execute(sql`lock table fleet_status in access exclusive mode`);
      for (const path of ["", "/facets", "/export.csv?kind=stale"])
        for (let copies = 0; copies < 5; copies++)
          reports.push(test.auditor.get(`/v1/collector/health${path}`));
      // Copies of the template have tables of the same oid.
      const waiting = sql`select from pg_locks where relation = 'fleet_status'::regclass and not granted
      and database = (select oid from pg_database where datname = current_database())`;
      await expect.poll(async () => (await tx.execute(waiting)).length).toBeGreaterThanOrEqual(2);
      // A session may be idle while the others wait: more requests than sessions.
      const requests = Array.from({ length: 12 }, () => test.reader.get("/v1/whoami"));
      expect((await Promise.all(requests)).map(({ status }) => status)).toEqual(
        Array(12).fill(200),
      );
    });
    expect((await Promise.all(reports)).map(({ status }) => status)).toEqual(Array(15).fill(200));
  });
});

it.each(Object.entries({ config_invalid: invalid, queue_at_risk: atRisk, renewal_failed: failed }))(
  "a host that recovers from %s has changed, for an hour",
  async (_, trouble) => {
    const { beatAfter, changedWithin } = await startFleet();
    const running = { config: { ...config, running_config_hash: null } };
    await beatAfter(0, running);
    await beatAfter(1, { ...running, ...trouble });
    await beatAfter(2, { ...running, ...trouble });
    expect(await changedWithin(60)).toBe(false);
    await beatAfter(1, running);
    expect(await changedWithin(60)).toBe(true);
    await beatAfter(1, running);
    expect([await changedWithin(60), await changedWithin(59)]).toEqual([true, false]);
  },
);

it("a host that was stale has changed with its next heartbeat, and one that waited for its first after 15 minutes", async () => {
  const { test, beatAfter, changedWithin } = await startFleet();
  await beatAfter(60);
  expect(await changedWithin(60)).toBe(true);
  await beatAfter(3);
  // Three intervals to the millisecond: not stale.
  expect(await changedWithin(60)).toBe(false);
  await test.clock.advance(1);
  await beatAfter(3);
  expect(await changedWithin(60)).toBe(true);
});

it("a host whose certificate was about to expire has changed with the new one, and not if it was renewed in time", async () => {
  const { test, host, beatAfter, changedWithin } = await startFleet();
  const lifetime = 21 * 24 * hour;
  const renewed = async (leftMs: number) => {
    const at = (ms: number) => sql`${test.clock.iso(ms)}::timestamptz`;
    await test.db.transaction(async (tx) => {
      await tx.execute(sql`update certificate set not_after = ${at(leftMs)}, issued_at = ${at(leftMs - lifetime)}
        where id = ${host.certificateId}::uuid`);
      await tx.execute(
        sql`delete from certificate where predecessor_id = ${host.certificateId}::uuid`,
      );
      await tx.execute(sql`insert into certificate (id, identity_id, predecessor_id, status, serial_number, fingerprint_sha256,
          spki_sha256, certificate_pem, chain_pem, not_before, not_after, renew_after, issued_at)
        select ${crypto.randomUUID()}::uuid, identity_id, id, 'active', '', ${`late ${leftMs}`}::bytea, '', '', '', ${at(0)},
          ${at(lifetime)}, ${at(lifetime / 2)}, ${at(0)} from certificate where id = ${host.certificateId}::uuid`);
    });
  };
  await beatAfter(0);
  await beatAfter(60);
  await test.clock.advance(2 * minute);
  await renewed(lifetime / 4 + 1);
  expect(await changedWithin(60)).toBe(false);
  await renewed(lifetime / 4 - 1);
  expect(await changedWithin(60)).toBe(true);
});
