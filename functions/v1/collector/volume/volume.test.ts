import { sql } from "drizzle-orm";
import { describe, expect, it } from "vitest";
import { createVolumeKeeper } from "#functions/domain/volume/keep-volume.ts";
import { dayMs, hourMs } from "#kit/clock.ts";
import type { FleetHealthReport } from "#proto/fleet-health/report.ts";
import type { VolumeReport } from "#proto/volume.ts";
import { createTestToken } from "#tests/support/collector.ts";
import { useTestCore } from "#tests/support/core.ts";

const test = await useTestCore();
const { clock, db, core } = test;
const { enrollAll } = await createTestToken(test);
const [loud, calm, plain] = await enrollAll("loud", "calm", "plain");
await db.execute(
  sql`update collector_identity set reported_labels = '{"team": "shop"}' where device_id <> 'plain'`,
);
await db.execute(
  sql`update fleet_status s set label_set_id = i.label_set_id from collector_identity i where i.id = s.identity_id`,
);

const mib = 1024 * 1024;
const hour = clock.now() - (clock.now() % hourMs);
const store = (host: string, at: number, bytes: number, kind = "log_line") =>
  db.execute(sql`insert into ingest_hour (host_id, kind, hour, envelopes, payload_bytes)
    values (${host}, ${kind}, ${new Date(at).toISOString()}::timestamptz, 2, ${bytes}::bigint)`);
for (let day = 1; day <= 7; day += 1) {
  await store(loud.identity, hour - day * dayMs, day === 1 ? 20 * mib : 2 * mib);
  await store(calm.identity, hour - day * dayMs, mib);
}
await store(plain.identity, hour - hourMs, mib / 2, "otel_span");
await createVolumeKeeper(core)();

const get = (query = "") => test.auditor.read<VolumeReport>(`/v1/collector/volume?${query}`);
const byHost = [
  ["loud", 20 * mib],
  ["calm", mib],
  ["plain", mib / 2],
];
const namesOf = ({ items }: VolumeReport) =>
  items.map(({ name, device_id: device, payload_bytes: bytes }) => [device ?? name, bytes]);

describe("the volume of the last day", () => {
  it("has the hosts with the most bytes first, and each hour of all", async () => {
    const body = await get();
    expect(namesOf(body)).toEqual(byHost);
    expect(body).toMatchObject({ by: "host", step_seconds: 3600, parts: 3 });
    expect(body.total).toEqual({ envelopes: 6, payload_bytes: 21.5 * mib });
    expect(body.series.reduce((sum, { payload_bytes: bytes }) => sum + bytes, 0)).toBe(21.5 * mib);
    expect(Date.parse(body.to) - Date.parse(body.from)).toBe(25 * hourMs);
  });

  it("is also by kind, by a label, and for the first parts alone", async () => {
    expect(namesOf(await get("by=kind"))).toEqual([
      ["log_line", 21 * mib],
      ["otel_span", mib / 2],
    ]);
    expect(namesOf(await get("by=label:team"))).toEqual([
      ["shop", 21 * mib],
      [null, mib / 2],
    ]);
    const body = await get("limit=1");
    expect(namesOf(body)).toEqual([["loud", 20 * mib]]);
    expect(body).toMatchObject({ parts: 3, total: { payload_bytes: 21.5 * mib } });
  });

  it("is marked where a host sends ten times its usual, on the fleet too, which it sorts", async () => {
    const { items } = await get();
    expect(items.map(({ day }) => day)).toEqual([
      { day_bytes: 20 * mib, usual_bytes: 2 * mib },
      { day_bytes: mib, usual_bytes: mib },
      { day_bytes: mib / 2, usual_bytes: null },
    ]);
    const fleet = async (order: string) => {
      const path = `/v1/collector/health?sort=day_bytes&order=${order}`;
      const rows = (await test.auditor.read<FleetHealthReport>(path)).items;
      return rows.map(({ device_id, volume }) => [device_id, volume?.day_bytes]);
    };
    expect(await fleet("desc")).toEqual(byHost);
    expect(await fleet("asc")).toEqual(byHost.toReversed());
  });
});

describe("the volume of a range", () => {
  it("goes through hours that have become days", async () => {
    const body = await get("from=8d&by=kind");
    expect(body.total.payload_bytes).toBe((6 * 2 + 20 + 7 + 0.5) * mib);
    expect(body.step_seconds).toBe(3600);
    const days = await get("from=300d&by=kind");
    expect(days.total).toEqual(body.total);
    expect(days).toMatchObject({
      step_seconds: 86_400,
      from: expect.stringMatching(/T00:00:00.000Z$/),
    });
  });

  it("is refused if it is empty, too long, or by something else", async () => {
    for (const [query, path] of [
      ["from=1h&to=2h", "from"],
      ["from=40d", "from"],
      ["from=402d&by=kind", "from"],
      ["by=owner", "by"],
      ["by=label:", "by"],
      ["by=label:a b", "by"],
      ["by=label", "by"],
      ["limit=0", "limit"],
    ])
      expect(await get(query), query).toMatchObject({
        code: "validation_failed",
        errors: [{ path }],
      });
  });

  it("has what it takes on disk for all of retention once a whole day is stored", {
    tags: "workerd",
  }, async () => {
    const items = [{ disk_bytes: null }, {}, {}];
    expect(await get()).toMatchObject({ disk_bytes: null, items });
  });
});
