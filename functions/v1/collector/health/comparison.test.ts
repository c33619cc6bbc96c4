import { sql } from "drizzle-orm";
import { beforeAll, expect, it } from "vitest";
import { sampleHosts } from "#functions/store/fleet/host-hours.ts";
import { hourMs } from "#kit/clock.ts";
import type { HostComparison } from "#proto/fleet-health/comparison.ts";
import { useTestCore } from "#tests/support/core.ts";

const test = await useTestCore();
const { auditor, clock, db } = test;
/** Hosts vary in size; a third is upgraded, and then takes 40 percent more memory. */
const heartbeat = (change = sql``) =>
  db.execute(sql`update fleet_status set last_heartbeat_at = ${clock.iso()}::timestamptz,
    cpu_ms = cpu_ms + 60000 ${change}`);
const isUpgraded = sql`hashtext(identity) % 3 = 0`;
let since = 0;

beforeAll(async () => {
  await test.seedFleet(300);
  await db.execute(sql`update fleet_status set cpu_ms = 0`);
  await heartbeat(
    sql`, platform = 'linux/amd64', version = '1.0.0', revoked_from = 'infinity', queue_bytes = 100, lost_records = 0, starts = 0, rss_bytes = 80000000 + abs(hashtext(identity)) % 20000000, label_set_id = 1`,
  );
  await sample();
  await clock.advance(hourMs);
  await heartbeat();
  await sample();
  await clock.advance(60_000);
  since = clock.now();
  await heartbeat(sql`, version = case when ${isUpgraded} then '2.0.0' else '1.0.0' end, starts = (${isUpgraded})::int,
    rss_bytes = case when ${isUpgraded} then rss_bytes * 1.4 else rss_bytes end`);
  await clock.advance(hourMs);
  await heartbeat();
  await sample();
  await clock.advance(hourMs / 2);
  await heartbeat();
});

const compare = (query: string) =>
  auditor.read<HostComparison & { code?: string }>(`/v1/collector/health/comparison?${query}`);
const sample = () => sampleHosts(db, new Date(clock.now()));
const at = () => new Date(since).toISOString();

it("are compared with those of the version before, on the same platform and with the same labels", {
  tags: "workerd",
}, async () => {
  const body = await compare(`version=2.0.0&since=${at()}`);
  expect(body).toMatchObject({ verdict: "worse", matched_by: ["platform", "labels"] });
  const { measures } = body;
  // The upgrade itself is a restart, which the time since then does not have.
  expect(measures).toContainEqual(expect.objectContaining({ measure: "cpu", verdict: "same" }));
  expect(measures.map(({ measure }) => measure)).toContain("queue_growing");
  const worse = measures.filter(({ verdict }) => verdict === "worse");
  expect(worse.map(({ measure }) => measure)).toEqual(["memory"]);
  expect(worse[0]?.difference?.value).toBeCloseTo(0.4, 2);
});

it("send more bytes of logs than before in as many envelopes, by the hours before and since, and as much of the rest", async () => {
  const found = async () => (await compare(`version=2.0.0&since=${at()}`)).volume;
  expect(await found()).toBeUndefined();
  const hour = since - (since % hourMs);
  const store = (kind: string, from: number, bytes = sql`1000000`) =>
    db.execute(sql`insert into ingest_hour (host_id, kind, hour, envelopes, payload_bytes)
        select identity, ${kind}, ${new Date(from).toISOString()}::timestamptz, 24, ${bytes} from fleet_status`);
  for (const kind of ["log_line", "otel_metric", "otel_span", "other"])
    await store(kind, hour - hourMs);
  // That of the change counts for neither.
  await store("log_line", hour, sql`99000000`);
  const doubled = sql`case when version = '2.0.0' then 2 else 1 end`;
  await store("log_line", hour + hourMs, sql`1000000 / 24 * (${doubled})`);
  await store("otel_metric", hour + hourMs, sql`1000000 / 24`);
  await clock.advance(hourMs);
  await heartbeat();
  const volume = (await found()) ?? [];
  expect(volume.map(({ signal }) => signal)).toEqual(["logs", "metrics", "traces"]);
  const [logs, ...others] = volume;
  expect(logs?.difference?.value).toBeCloseTo(1, 1);
  expect(logs?.envelopes?.value).toBeCloseTo(0, 6);
  for (const { difference } of others) expect(difference?.value).toBeCloseTo(0, 6);
});

it("differ as little as others do where the filter has nothing to do with the change", async () => {
  const body = await compare(`version=1.0.0&q=7&since=${at()}`);
  expect(body.matched_by).toContain("version");
  expect(body.measures.find(({ measure }) => measure === "memory")).toMatchObject({
    verdict: "same",
    difference: { value: 0, low: 0, high: 0 },
  });
});

it("have no verdict where few match, or the change is too new, and none of a time without figures", async () => {
  const few = await compare(`version=3.0.0&since=${at()}`);
  expect(few).toMatchObject({ verdict: "too_few", changed: 0 });
  expect((await compare("version=2.0.0&since=1s")).verdict).not.toBe("worse");
  for (const time of ["80h", clock.iso(1000)])
    expect((await compare(`since=${time}`)).code).toBe("no_history");
  expect((await compare("version=2.0.0")).code).toBe("validation_failed");
});
