import { sql } from "drizzle-orm";
import { beforeAll, expect, it } from "vitest";
import { createHistoryKeeper } from "#functions/domain/fleet/keep-history.ts";
import { addHourCounts } from "#functions/store/completeness/days.ts";
import type { FleetHealthRow } from "#proto/fleet-health/columns.ts";
import type { FleetFacets } from "#proto/fleet-health/facets.ts";
import type { FleetHealthDetail } from "#proto/fleet-health/host.ts";
import type { FleetHealthReport } from "#proto/fleet-health/report.ts";
import type { FleetTimelineView } from "#proto/fleet-health/timeline.ts";
import type { FleetTrends } from "#proto/fleet-health/trends.ts";
import { fleetStates } from "#proto/fleet-health/vocabulary.ts";
import { createTestCsr, createTestKey } from "#scripts/lab/ca/test-pki.ts";
import { heartbeatBody } from "#scripts/lab/heartbeat-body.ts";
import { createOpampAgent, pollOpamp } from "#scripts/lab/opamp-agent.ts";
import { createSeededEntropy } from "../fakes/entropy.ts";
import { collectorOf, createTestToken, manage, type TestCollector } from "../support/collector.ts";
import { useTestCore } from "../support/core.ts";
import { isSlow } from "../support/is-slow.ts";
import { postAs } from "../support/post-as.ts";
import { publishTestConfig } from "../support/rollout.ts";

/** Of how many steps one page is compared. */
const stepsOfPage = isSlow ? 6 : 12;
const minute = 60_000;
const hour = 60 * minute;
const test = await useTestCore({
  env: { SVC_COLLECTOR_MIN_VERSION: "1.0.0", SVC_STATE_RETENTION_DAYS: "2" },
});
const { clock, core, db } = test;
const keepHistory = createHistoryKeeper(core);

const get = async <Body>(query: string, at?: string) => {
  const params = [query, at && `at=${at}`].filter(Boolean).join("&");
  const answer = await test.auditor.get<Body>(`/v1/collector/health${params && `?${params}`}`);
  expect(answer).toMatchObject({ status: 200 });
  return answer.body;
};
const refused = async (path: string) => {
  const { status, body } = await test.auditor.get(`/v1/collector/health${path}`);
  return { status, code: body.code, detail: body.detail };
};
const nowText = () => new Date(clock.now()).toISOString();

/** What a row says that has a history. */
const factsOf = ({ conditions, ...row }: FleetHealthRow) => ({
  identity: row.identity,
  state: row.state,
  version: row.version,
  platform: row.platform,
  labels: row.labels,
  enrolled_at: row.enrolled_at,
  forwarding: row.forwarding,
  connected: row.forwarder?.connected,
  certificate: row.certificate,
  successor: row.successor,
  config: row.config,
  conditions: conditions.map(({ state }) => state),
  // Of what a host reports the start of the first is known.
  since: conditions[0]?.since,
  silentSince: row.state === "stale" ? row.last_heartbeat_at : undefined,
});

/** What the page said. */
const pageOf = async (at?: string) => {
  const [{ summary, items }, { total, versions, labels, drift, certificate_expiry, exports }] =
    await Promise.all([
      get<FleetHealthReport>("sort=severity&limit=1000", at),
      test.auditor
        .get<FleetFacets>(`/v1/collector/health/facets${at ? `?at=${at}` : ""}`)
        .then(({ body }) => body),
    ]);
  return {
    summary,
    rows: items.map(factsOf),
    total,
    versions,
    labels,
    drift,
    exports,
    expired: certificate_expiry.expired,
  };
};

const pages: { at: string; page: Awaited<ReturnType<typeof pageOf>> }[] = [];
const views = [
  "state=stale",
  "attention=needed",
  "changed_within_seconds=900",
  "label=env:a",
  "drift=drifted",
];
const counts: number[][] = [];
let revoked: TestCollector | undefined;

beforeAll(async () => {
  const random = createSeededEntropy(31);
  const pick = (choices: number) => (random.bytes(1)[0] ?? 0) % choices;
  await keepHistory();
  const { enroll } = await createTestToken(test, { certificate_ttl_seconds: 2 * 3600 });
  const configs = [await publishTestConfig(test, 100), await publishTestConfig(test, 200)];
  const body = heartbeatBody(0) as Record<
    "collector" | "config" | "queue" | "renewal",
    Record<string, unknown>
  >;
  const hosts: {
    host: TestCollector;
    report: Record<string, unknown>;
    silentUntil: number;
    sendsUntil: number;
  }[] = [];

  const gateway = await enroll("gateway", "ed25519", "otelcol");
  const agent = createOpampAgent({
    instanceUid: random.bytes(16),
    hostname: "gateway",
    startedAt: clock.now(),
  });

  for (let step = 0; step < 150; step++) {
    await clock.advance(minute);
    // It is unhealthy for half an hour, and silent before its certificate expires.
    if (step === 30 || step === 60)
      agent.fail(step === 30 ? "connection refused" : "", clock.now());
    if (step < 90) await pollOpamp(agent, postAs(test, gateway));
    if (hosts.length < 6 && step % 6 === 0) {
      const host = await enroll(`host-${hosts.length}`, "ed25519");
      hosts.push({ host, report: {}, silentUntil: step + pick(25), sendsUntil: step + pick(60) });
    }
    for (const one of hosts) {
      if (one.silentUntil > step) continue;
      const change = pick(24);
      if (change === 0) one.silentUntil = step + pick(40);
      if (change === 1)
        one.report.collector = { ...body.collector, version: pick(2) === 0 ? "0.9.0" : "1.4.0" };
      if (change === 2)
        one.report.config = {
          valid: pick(2) === 0,
          errors: [],
          running_config_hash: "b".repeat(64),
        };
      if (change === 3) one.report.queue = { ...body.queue, at_risk: pick(2) === 0 };
      if (change === 4)
        one.report.renewal = { ...body.renewal, status: pick(2) === 0 ? "failed" : "ok" };
      if (change === 5) one.report.labels = { env: pick(2) === 0 ? "a" : "b" };
      if (change === 6) one.sendsUntil = step + pick(40);
      if (change === 7) {
        const path = `/v1/collector/identities/${one.host.identityId}/desired-config`;
        const config_id = configs[pick(2)];
        if (pick(3) === 0) await test.admin.delete(path);
        else await test.admin.put(path, { config_id });
      }
      if (change === 8) {
        const key = await createTestKey("ed25519");
        const csr_pem = await createTestCsr({ key, uri: one.host.identity });
        const renewal = { sent_at: nowText(), csr_pem, collector_version: "1.1.0" };
        const answer = await manage(test, one.host, "renew", renewal);
        if (answer.status === 200 && pick(3) > 0) one.host = collectorOf(key, answer.body);
      }
      await manage(test, one.host, "heartbeat", heartbeatBody(clock.now(), one.report));
      if (one.sendsUntil > step)
        await db.execute(sql`insert into ingest_host values (${one.host.identity}, ${nowText()}::timestamptz)
            on conflict (host_id) do update set last_envelope_at = excluded.last_envelope_at`);
    }
    if (step === 120) {
      revoked = hosts[2]?.host;
      await test.revoke(revoked?.identityId);
    }
    if (step % 5 === 0) await keepHistory();
    if (step % stepsOfPage !== 0) continue;
    // Between events, as most looks are.
    await clock.advance(pick(50) * 1000);
    pages.push({ at: nowText(), page: await pageOf() });
    counts.push(
      await Promise.all(
        views.map(async (view) => (await get<FleetHealthReport>(view)).items.length),
      ),
    );
  }
  await clock.advance(2 * hour);
});

it("is what it was: rows, states, counts and facets, in the same order", async () => {
  for (const { at, page } of pages) expect({ at, ...(await pageOf(at)) }).toEqual({ at, ...page });
  // Else it would compare nothing.
  const states = new Set(pages.flatMap(({ page }) => page.rows.map(({ state }) => state)));
  expect([...states].sort()).toEqual([...fleetStates].sort());
  expect(new Set(pages.map(({ page }) => page.summary.stopped)).size).toBeGreaterThan(1);
});

it("has the rows that its filters found then", async () => {
  for (const [index, { at }] of pages.entries())
    expect([
      at,
      ...(await Promise.all(
        views.map(async (view) => (await get<FleetHealthReport>(view, at)).items.length),
      )),
    ]).toEqual([at, ...(counts[index] ?? [])]);
});

it("is marked as past, in every answer, and its cursors are not of now", async () => {
  const at = pages.at(-1)?.at ?? "";
  const report = await get<FleetHealthReport>("limit=1", at);
  expect(report).toMatchObject({ at, generated_at: at });
  expect(report.exports).toBeUndefined();
  const { body } = await test.auditor.get<FleetFacets>(`/v1/collector/health/facets?at=${at}`);
  expect(body.at).toBe(at);
  expect(body.heartbeat_age.buckets[0]).toMatchObject({ from_seconds: 0, to_seconds: 180 });
  const csv = await test.auditor.get<string>(`/v1/collector/health/export.csv?kind=stale&at=${at}`);
  expect(csv.headers.get("content-disposition")).toContain(at.slice(0, 10));
  expect(csv.body.split("\r\n")).toHaveLength(2 + body.exports.stale);
  const next = await get<FleetHealthReport>(`limit=1&cursor=${report.next_cursor}`, at);
  expect(next.items[0]?.identity).not.toBe(report.items[0]?.identity);
  expect(await refused(`?limit=1&cursor=${report.next_cursor}`)).toMatchObject({
    status: 422,
    code: "validation_failed",
  });
  expect((await get<FleetHealthReport>("")).at).toBeUndefined();
});

it("shows a host as it was, without what happened since", async () => {
  const path = `/v1/collector/health/${revoked?.identityId}`;
  const of = async (at: string) => await test.auditor.read<FleetHealthDetail>(`${path}?at=${at}`);
  const before = pages.at(-6)?.at ?? "";
  const after = pages.at(-1)?.at ?? "";
  expect(await of(before)).toMatchObject({
    at: before,
    config_errors: [],
    item: { certificate: { status: "active" } },
  });
  expect((await of(before)).history.map(({ action }) => action)).not.toContain(
    "collector_identity.revoke",
  );
  expect((await of(after)).item).toMatchObject({
    state: "revoked",
    certificate: { status: "revoked" },
  });
  const born = new Date(Date.parse((await of(after)).item.enrolled_at) - 1).toISOString();
  expect(await refused(`/${revoked?.identityId}?at=${born}`)).toMatchObject({
    status: 404,
    code: "not_found",
  });
});

it("is counted every five minutes, and each count is that of its page", async () => {
  const { body } = await test.auditor.get<FleetTimelineView>("/v1/collector/health/timeline");
  expect(body.items.length).toBeGreaterThan(25);
  expect(body.step_seconds).toBe(300);
  for (const { at, by_state, needs_attention } of body.items.slice(1)) {
    const { summary } = await get<FleetHealthReport>("limit=1", at);
    expect([at, summary.by_state, summary.needs_attention]).toEqual([
      at,
      by_state,
      needs_attention,
    ]);
  }
  const month = await test.auditor.get<FleetTimelineView>("/v1/collector/health/timeline?span=30d");
  expect(month.body.items.length).toBeLessThan(4);
  expect(month.body.history_from).toBe(body.history_from);
});

it("has each figure of a quarter of an hour as its page of then, and null where nobody counted", async () => {
  await keepHistory();
  const settled = clock.now() - (clock.now() % hour) - 2 * hour;
  // Three complete, two short, one silent.
  await addHourCounts(db, new Map([[settled, [3, 0, 2, 0, 1, 0, 0, 0]]]));
  const { body } = await test.auditor.get<FleetTrends>("/v1/collector/health/trends");
  expect(body).toMatchObject({ step_seconds: 900 });
  expect(Date.parse(body.until) - clock.now()).toBeLessThanOrEqual(900_000);
  const times = body.sampled_at.flatMap((at, index) => (at === null ? [] : [{ at, index }]));
  expect(times.length).toBeGreaterThan(8);
  expect(times.at(-1)?.index).toBe(95);
  for (const { at, index } of times.slice(1)) {
    const { summary } = await get<FleetHealthReport>("limit=1", at);
    const states = Object.entries(body.by_state).map(([name, points]) => [name, points[index]]);
    expect([at, Object.fromEntries(states)]).toEqual([at, summary.by_state]);
    expect([at, body.needs_attention[index], body.forwarding[index]]).toEqual([
      at,
      summary.needs_attention,
      summary.forwarding,
    ]);
  }
  expect([body.needs_attention[0], body.forwarding[0], body.sampled_at[0]]).toEqual([
    null,
    null,
    null,
  ]);
  expect(body.incomplete.filter((hosts) => hosts !== null)).toEqual([3, 3, 3, 3]);
});
