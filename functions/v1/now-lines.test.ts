import { sql } from "drizzle-orm";
import { expect, it } from "vitest";
import { createHistoryKeeper } from "#functions/domain/fleet/keep-history.ts";
import { fleetStrip } from "#functions/domain/now/strip.ts";
import { evaluateWatches } from "#functions/domain/watch/run-watches.ts";
import { zstdCodec } from "#functions/node/ingest/zstd-codec.ts";
import { addHourCounts, dayAt, findDays, saveDays } from "#functions/store/completeness/days.ts";
import { upsertCoreReport } from "#functions/store/system/system.ts";
import { hourMs, minuteMs } from "#kit/clock.ts";
import { byteOfState, hourStates } from "#proto/completeness/hour-state.ts";
import type { NowLine, NowReport } from "#proto/now/report.ts";
import { heartbeatBody } from "#scripts/lab/heartbeat-body.ts";
import { exportThrough, storeBlock } from "#tests/support/accounts.ts";
import { createTestToken, sendHeartbeat, type TestCollector } from "#tests/support/collector.ts";
import { useTestCore } from "#tests/support/core.ts";
import { publishTestConfig } from "#tests/support/rollout.ts";

const test = await useTestCore();
const { admin, auditor, clock, core, db } = test;
const readNow = () => auditor.read<NowReport>("/v1/now");
const linesNow = async (kind: NowLine["kind"]) =>
  (await readNow()).lines.filter((line) => line.kind === kind);

/** The API behind the pages that lines lead to, and its rows. */
const pages: readonly (readonly [page: RegExp, api: string])[] = [
  [/^\/fleet/, "/v1/collector/health"],
  [/^\/changes\/rollouts\/([^?]+)/, "/v1/collector/rollouts/$1/targets"],
  [/^\/changes\/audit/, "/v1/audit-events"],
  [/^\/data\/completeness/, "/v1/collector/completeness"],
  [/^\/access\/inventory/, "/v1/collector/inventory"],
];
const rowsOf = async (path: string) => {
  const [page, api] = pages.find(([each]) => each.test(path)) ?? [/$/, ""];
  const { body } = await auditor.get<{ items: [] }>(path.replace(page, api));
  return body.items.length;
};
const expectRows = async (lines: readonly NowLine[]) => {
  for (const { path, count } of lines) expect(count, path).toBe(await rowsOf(path));
};

const atFirst = await readNow();
it("says nothing of a fleet in which nothing is enrolled yet", () => {
  const { lines, hosts, strip } = atFirst;
  expect([lines, hosts, strip.length]).toEqual([[], 0, 3]);
});

const { enroll } = await createTestToken(test, { certificate_ttl_seconds: 96 * 3600 });
const racks = Array.from({ length: 24 }, (_, n) => (n < 9 ? "r12" : "r9"));
const hosts = await Promise.all(racks.map((_, n) => enroll(`host-${n}`, "ed25519")));
await enroll("never", "ed25519");
const { queue } = heartbeatBody(0) as Record<"queue", object>;
const max_bytes = 10 * 2 ** 30;
const beat = (which: (n: number) => boolean, bytes = 0) =>
  Promise.all(
    hosts.map((host, n) => {
      const oldest_record_age_seconds = bytes === 0 ? null : 3600;
      const filled = { ...queue, max_bytes, bytes, oldest_record_age_seconds };
      return which(n)
        ? sendHeartbeat(test, host, { queue: filled, labels: { rack: racks[n] } })
        : null;
    }),
  );
const keepHistory = createHistoryKeeper({ ...core, codec: zstdCodec });
/** Lets minutes pass in which some hosts send heartbeats. */
const pass = async (minutes: number, which: (n: number) => boolean) => {
  for (let left = minutes; left > 0; left -= 1) {
    await beat(which);
    await keepHistory();
    await clock.advance(minuteMs);
  }
};

it("has a line for a state of more hosts than before: since when, and what they have in common", async () => {
  await pass(11, () => true);
  expect(await linesNow("state")).toEqual([]);
  await pass(10, (n) => n >= 9);
  const lines = await linesNow("state");
  expect(lines[0]).toMatchObject({
    key: "state:stale",
    severity: "critical",
    count: 10,
    sentence: "10 hosts are stale.",
    evidence: "9 of them have the label rack:r12, and no other host.",
    path: "/fleet?state=stale",
  });
  const { since } = lines[0] as NowLine;
  // The sample of the next five minutes has the first of them.
  expect(Date.parse(String(since))).toBeGreaterThan(clock.now() - 12 * minuteMs);
  await expectRows(lines);
  expect(await rowsOf("/fleet?state=stale&device=never")).toBe(1);
  const { strip } = await readNow();
  expect(strip[0]?.present).toBe(await rowsOf(strip[0]?.path ?? ""));
  expect(strip[0]?.points).toHaveLength(96);
});

it("is the same, by its ETag, until something has changed", async () => {
  const get = (etag = "") =>
    test.api("GET", "/v1/now", { as: "auditor", headers: { "if-none-match": etag } });
  const etag = (await get()).headers.get("etag") ?? "";
  await clock.advance(7_000);
  expect((await get(etag)).status).toBe(304);
  await admin.post("/v1/now/claims", { key: "state:stale" });
  expect((await get(etag)).status).toBe(200);
});

it("keeps a claim through one sample without the trouble", async () => {
  const taken = async () => (await linesNow("state")).find(({ count }) => count === 10)?.taken?.by;
  await pass(11, (n) => n >= 9);
  const zero = async (before: number) =>
    db.execute(sql`update fleet_sample set states = array_fill(0, array[cardinality(states)])
      where slot = (select slot from fleet_sample order by slot desc offset ${before}::int limit 1)`);
  await zero(1);
  expect(await taken()).toBe("ada@example.test");
  await zero(0);
  expect(await taken()).toBeUndefined();
});

it("has the hosts that will lose their certificate, and those whose queue will be full", async () => {
  expect(await linesNow("ahead")).toEqual([]);
  await beat((n) => n === 10, max_bytes / 100);
  await keepHistory();
  await clock.advance(hourMs);
  await beat((n) => n === 10, max_bytes / 10);
  await clock.advance(24 * hourMs);
  await beat((n) => n === 10, max_bytes / 2);
  const lines = await linesNow("ahead");
  await expectRows(lines);
  const { evidence, path } = lines.find(({ key }) => key === "ahead:certificates") as NowLine;
  const { items } = await test.health(path.replace("/fleet?", ""));
  const first = items.slice(0, 3).map(({ device_id, certificate }) => {
    const at = certificate.not_after.slice(0, 16).replace("T", " ");
    return `${device_id}, at ${at} UTC`;
  });
  expect(evidence).toBe(`First: ${first.join("; ")}.`);
});

it("is critical where the first queue is full within hours", async () => {
  for (const share of [0.1, 0.4, 0.7]) {
    await beat((n) => n === 10, max_bytes * share);
    await keepHistory();
    await clock.advance(5 * minuteMs);
  }
  await beat((n) => n === 10, max_bytes * 0.9);
  const queues = (await linesNow("ahead")).filter(({ key }) => key === "ahead:queues");
  expect(queues).toMatchObject([
    { severity: "critical", count: 1, evidence: "First: host-10, within the hour." },
  ]);
  await expectRows(queues);
});

it("has the rollouts that wait for a decision, with the hosts that failed", async () => {
  const config_id = await publishTestConfig(test);
  const waves = [{ percent: 100, soak_seconds: 0 }];
  const body = { config_id, filter: "device:host-10", waves };
  const { id } = (await admin.post("/v1/collector/rollouts", body)).body;
  expect(await linesNow("rollout")).toEqual([]);
  await admin.post(`/v1/collector/rollouts/${id}/pause`, {});
  expect(await linesNow("rollout")).toMatchObject([
    {
      key: `rollout:${id}`,
      severity: "warning",
      since: clock.iso(),
      count: null,
      sentence: expect.stringMatching(
        /^The rollout of \w+ is paused in wave 1 of 1: somebody paused it/,
      ),
    },
  ]);
  const failed = sql`update rollout_target set status = 'failed' where rollout_id = ${id}::uuid`;
  await db.execute(failed);
  await db.execute(
    sql`update rollout_wave set failed = 1, pending = 0 where rollout_id = ${id}::uuid`,
  );
  await db.execute(sql`update rollout set reason_code = 'gate_breached' where id = ${id}::uuid`);
  const lines = await linesNow("rollout");
  expect(lines).toMatchObject([{ severity: "critical", count: 1 }]);
  expect(lines[0]?.sentence).toMatch(/: 1 host failed\.$/);
  await expectRows(lines);
});

it("has the hosts that core rolled back, with the config that they cannot run", async () => {
  const config_id = await publishTestConfig(test, 200);
  const { config_hash } = (await admin.get(`/v1/collector/configs/${config_id}`)).body;
  const [host] = hosts as [TestCollector];
  await db.execute(
    sql`update fleet_status set agent = 'otelcol' where identity_id = ${host.identityId}::uuid`,
  );
  await admin.put(`/v1/collector/identities/${host.identityId}/desired-config`, { config_id });
  const good = "ab".repeat(32);
  await sendHeartbeat(test, host, {
    config: {
      valid: true,
      errors: ["desired config: rolled back: exit code 1"],
      running_config_hash: good,
      desired_config_hash: config_hash,
      last_known_good_config_hash: good,
    },
  });
  const lines = (await linesNow("state")).filter(({ key }) => key === "state:rolled_back");
  const sentence = `1 host rolled back from ${String(config_hash).slice(0, 12)}.`;
  expect(lines).toMatchObject([{ count: 1, sentence }]);
  await expectRows(lines);
});

it("has a line for each run of hours that are not complete", async () => {
  const hour = clock.now() - (clock.now() % hourMs);
  const counts = (short: number) => hourStates.map((state) => (state === "short" ? short : 0));
  const at = (hoursAgo: number) => hour - hoursAgo * hourMs;
  for (const [host, hoursAgo] of [
    ["a", 30],
    ["b", 30],
    ["a", 29],
    ["c", 3],
  ] as const) {
    const states = new Uint8Array(24);
    const days = await findDays(db, [host], { from: dayAt(at(hoursAgo)), to: dayAt(at(hoursAgo)) });
    states.set(days[0]?.states ?? []);
    states[new Date(at(hoursAgo)).getUTCHours()] = byteOfState("short");
    const incompleteHours = states.filter((state) => state > 0).length;
    const row = { host, day: dayAt(at(hoursAgo)), states, incompleteHours };
    await saveDays(db, [{ ...row, details: null, undelivered: 0, xid: 0n } as never]);
  }
  await addHourCounts(
    db,
    new Map([
      [at(30), counts(2)],
      [at(29), counts(1)],
      [at(3), counts(1)],
    ]),
  );
  const lines = await linesNow("hours");
  expect(lines.map(({ count, since }) => [count, since])).toEqual([
    [2, new Date(at(30)).toISOString()],
    [1, new Date(at(3)).toISOString()],
  ]);
  expect(lines[0]).toMatchObject({
    severity: "critical",
    sentence: expect.stringMatching(
      /^Data of 2 hosts is incomplete from \S+ \d\d:00 to .*\d\d:00 UTC\.$/,
    ),
    evidence: "All of them lost records. Worst: a, 2 hours.",
  });
  await expectRows(lines);
  // What was missing in its first hour arrives: the trouble of the others is the same.
  const { key, since } = lines[0] as NowLine;
  await admin.post("/v1/now/claims", { key });
  await addHourCounts(db, new Map([[at(30), counts(-2)]]));
  // Lines that somebody has taken come last.
  const left = (await linesNow("hours")).at(-1);
  expect(left).toMatchObject({ key, since, count: 1, taken: { by: "ada@example.test" } });
  expect(left?.sentence).toMatch(/^Data of 1 host is incomplete from/);
});

it("has the components of the system that are ill, the same while only their figures move", async () => {
  const report = (seconds: number) =>
    upsertCoreReport(db, {
      id: "01920000-0000-7000-8000-00000000c0de",
      machine: "vm-1",
      version: "1",
      startedAt: new Date(clock.now()),
      reportedAt: new Date(clock.now()),
      stoppedAt: null,
      streams: 0,
      clockAheadMs: 0,
      checks: [
        {
          endpoint: "core",
          name: "clock",
          status: "not_ready",
          detail: `The clock is ${seconds} s ahead.`,
          since: clock.iso(),
        },
      ],
      certificates: {},
      credentials: null,
    });
  await report(1234);
  const lines = await linesNow("system");
  expect(lines).toMatchObject([
    {
      key: "system:core:vm-1",
      severity: "critical",
      since: clock.iso(),
      sentence: "Core vm-1 (Clock): The clock is 1,000+ s ahead.",
      path: "/system",
    },
  ]);
  await report(1241);
  expect(await linesNow("system")).toEqual(lines);
});

it("keeps a claim of an export that is behind while its oldest envelope moves on", async () => {
  await exportThrough(db, 1, { name: "otlp" });
  const pending = async (minutes: number) => {
    await db.execute(sql`delete from ingest_block where host_id = 'stored'`);
    await storeBlock(db, { xid: 1, envelopes: 41, ageSeconds: minutes * 60 });
  };
  const lineNow = async () => (await linesNow("system")).find(({ key }) => key.includes("otlp"));
  await pending(20);
  const key = (await lineNow())?.key;
  expect((await lineNow())?.sentence).toMatch(/40\+ envelopes wait, the oldest for 1,000\+ s/);
  await admin.post("/v1/now/claims", { key });
  await clock.advance(hourMs);
  await pending(20);
  expect((await lineNow())?.taken?.by).toBe("ada@example.test");
  await db.execute(sql`delete from export_position`);
  await db.execute(sql`delete from ingest_block where host_id = 'stored'`);
});

it("has the expected hosts that never enrolled", async () => {
  const inventory = [{ name: "host-1" }, { name: "web-17" }, { name: "web-18" }];
  await admin.put("/v1/collector/inventory", { hosts: inventory });
  const lines = await linesNow("missing");
  expect(lines).toMatchObject([
    { key: "missing", count: 2, sentence: "2 hosts of the inventory have never enrolled." },
  ]);
  await expectRows(lines);
});

it("says what it could not read, and everything else", async () => {
  await db.execute(sql`alter table inventory_host rename to inventory_gone`);
  const { lines } = await readNow();
  await db.execute(sql`alter table inventory_gone rename to inventory_host`);
  expect(new Set(lines.map(({ kind }) => kind))).toContain("hours");
  // A page of hosts reads the inventory too.
  const unread = lines.filter(({ kind }) => kind === "unread" || kind === "missing");
  expect(unread).toMatchObject([
    { key: "unread:ahead", severity: "critical", path: "/fleet" },
    { key: "unread:missing", severity: "critical", path: "/access/inventory" },
  ]);
});

it("orders 40 watches at once by their hosts, and has a state that one of them counts only once", async () => {
  for (let n = 0; n < 40; n += 1)
    await admin.post("/v1/collector/watches", {
      name: `watch ${n}`,
      filter: n === 0 ? "state:stale" : `device:host-${n % 3},host-${n % 7}`,
      for_seconds: 0,
    });
  await clock.advance(10_000);
  await evaluateWatches(core);
  const { lines } = await readNow();
  const watches = lines.filter(({ kind }) => kind === "watch");
  const counts = watches.map(({ count }) => count ?? 0);
  expect([watches.length, counts]).toEqual([40, counts.toSorted((a, b) => b - a)]);
  expect(lines.filter(({ path }) => path === "/fleet?state=stale")).toHaveLength(1);
  await expectRows(watches);
  const [{ key } = { key: "" }] = lines;
  await admin.post("/v1/now/claims", { key });
  const after = (await readNow()).lines;
  // What nobody has taken stands above.
  expect(after.findIndex((line) => line.key === key)).toBe(
    after.filter(({ taken }) => taken === null).length,
  );
});

it("says beside the hosts that need attention how many did a day ago", () => {
  const now = new Date(clock.now());
  const labelOf = (needsAttention: number, hoursAgo: number) =>
    fleetStrip({
      view: { rules: { now } },
      summary: { needsAttention },
      samples: [
        { at: new Date(clock.now() - hoursAgo * hourMs + 15 * minuteMs - 1), needsAttention: 3 },
      ],
    } as never).label;
  expect(labelOf(1, 23)).toBe("host needs attention");
  expect(labelOf(2, 24)).toBe("hosts need attention, 3 a day ago");
});

it("counts what people changed in the last 24 hours", async () => {
  const changes = (await readNow()).strip.find(({ name }) => name === "changes");
  expect(changes?.present).toBe(await rowsOf(`${changes?.path}&limit=1000`));
  expect(changes?.points.reduce((sum, count) => Number(sum) + Number(count), 0)).toBe(
    changes?.present,
  );
});
