import { sql } from "drizzle-orm";
import { describe, expect, it } from "vitest";
import { dayMs, hourMs } from "#kit/clock.ts";
import { useTestDatabase } from "#tests/support/database.ts";
import { createPartition } from "../ingest/partitions.ts";
import { deleteOldVolume, foldHours, refreshHostVolumes } from "./fold.ts";
import { findDiskOfDays, findLargest, findSeries } from "./report.ts";

const database = await useTestDatabase();
const { db } = database.connect();

const today = Date.UTC(2026, 10, 26);
const dayOf = (ms: number) => Math.floor(ms / dayMs);
const store = async (host: string, at: number, bytes: number, kind = "log_line") => {
  await db.execute(sql`insert into ingest_hour (host_id, kind, hour, envelopes, payload_bytes)
    values (${host}, ${kind}, ${new Date(at).toISOString()}::timestamptz, 1, ${bytes}::bigint)
    on conflict (host_id, hour, kind) do update set envelopes = ingest_hour.envelopes + 1,
      payload_bytes = ingest_hour.payload_bytes + excluded.payload_bytes`);
};
const hoursLeft = async () =>
  (await db.execute<{ count: number }>(sql`select count(*)::int as count from ingest_hour`))[0]
    ?.count;
const bytesOf = async (fromMs: number, toMs: number) =>
  (await findLargest(db, { by: "kind" }, { fromMs, toMs }, 10)).total.payloadBytes;

describe("hours of hosts", () => {
  it("become days once they are two days old, with the same sums for any range of hours", async () => {
    const first = today - 5 * dayMs;
    const sums = new Map<number, number>();
    for (let hour = 0; hour < 5 * 24; hour += 5) {
      const at = first + hour * hourMs;
      for (const [index, host] of ["a", "b"].entries()) {
        const bytes = hour * 10 + index;
        await store(host, at, bytes, hour % 2 === 0 ? "log_line" : "otel_span");
        sums.set(at, (sums.get(at) ?? 0) + bytes);
      }
    }
    const expected = (fromMs: number, toMs: number) =>
      [...sums]
        .filter(([at]) => at >= fromMs && at < toMs)
        .reduce((sum, [, bytes]) => sum + bytes, 0);
    const before = await hoursLeft();
    expect(await foldHours(db, today + 2 * hourMs)).toBe(2);
    expect(await hoursLeft()).toBeLessThan(before ?? 0);
    expect(await foldHours(db, today + 2 * hourMs)).toBe(0);
    for (const [from, hours] of [
      [0, 120],
      [3, 7],
      [20, 30],
      [24, 24],
      [47, 60],
      [71, 26],
      [119, 1],
    ] as const) {
      const range = { fromMs: first + from * hourMs, toMs: first + (from + hours) * hourMs };
      expect(await bytesOf(range.fromMs, range.toMs)).toBe(expected(range.fromMs, range.toMs));
      const hosts = await findLargest(db, { by: "host" }, range, 10);
      expect(hosts.total.payloadBytes).toBe(expected(range.fromMs, range.toMs));
      const series = await findSeries(db, range, hourMs);
      for (let at = range.fromMs; at < range.toMs; at += hourMs)
        expect(series.get(at)?.payloadBytes ?? 0).toBe(expected(at, at + hourMs));
    }
    const byDay = await findSeries(db, { fromMs: first, toMs: first + 2 * dayMs }, dayMs);
    expect(byDay.get(first)?.payloadBytes).toBe(expected(first, first + dayMs));
  });

  it("that a core with a slow clock adds to a day later are added to it, and those ahead of the time stay", async () => {
    const late = today - 4 * dayMs + 3 * hourMs;
    const before = await bytesOf(late, late + hourMs);
    await store("a", late, 1_000_000);
    await store("a", today + 40 * dayMs, 7);
    await foldHours(db, today + 3 * hourMs);
    expect(await bytesOf(late, late + hourMs)).toBe(before + 1_000_000);
    expect(await bytesOf(today + 40 * dayMs, today + 41 * dayMs)).toBe(7);
  });

  it("are folded once by two cores at the same time", async () => {
    await store("c", today - 4 * dayMs, 5);
    const before = await bytesOf(today - 10 * dayMs, today);
    await Promise.all([foldHours(db, today), foldHours(db, today)]);
    expect(await bytesOf(today - 10 * dayMs, today)).toBe(before);
    const rows = await db.execute(
      sql`select envelopes::int, hour_bytes[1]::int as first from volume_day where host_id = 'c'`,
    );
    expect([...rows]).toEqual([{ envelopes: 1, first: 5 }]);
  });

  it("are forgotten after 14 days, and days after 400", async () => {
    const keptDays = async () => {
      const rows = await db.execute(
        sql`select distinct day, hour_bytes is not null as hours from volume_total order by day`,
      );
      return rows.map(({ day, hours }) => [day, hours]);
    };
    const folded = (await keptDays()).map(([day]) => Number(day));
    const last = Math.max(...folded);
    await deleteOldVolume(db, (last + 14) * dayMs);
    expect(await keptDays()).toEqual(folded.map((day) => [day, day === last]));
    // A late hour of such a day is in its sum alone.
    const before = await bytesOf(today - 10 * dayMs, today);
    await store("a", today - 4 * dayMs, 9);
    await foldHours(db, today + dayMs);
    expect(await bytesOf(today - 10 * dayMs, today)).toBe(before + 9);
    await deleteOldVolume(db, (last + 400) * dayMs);
    expect((await keptDays()).map(([day]) => day)).toEqual([last]);
    expect(dayOf(today)).toBeGreaterThan(last);
  });
});

it("the disk of days is that of their partitions, of days whose hours are known alone", async () => {
  const day = Date.UTC(2028, 0, 10);
  for (const at of [day - dayMs, day]) await createPartition(db, at);
  await store("a", day + 5 * hourMs, 300);
  await store("a", day + dayMs, 5);
  const { diskBytes, payloadBytes } = await findDiskOfDays(db, { today: dayOf(day) + 1, days: 2 });
  expect(payloadBytes).toBe(300);
  const [row] = await db.execute(
    sql`select pg_total_relation_size('ingest_block_20280110') + pg_total_relation_size('ingest_envelope_20280110') as bytes`,
  );
  expect(diskBytes).toBe(Number(row?.bytes));
  expect(await findDiskOfDays(db, { today: dayOf(day), days: 1 })).toEqual({
    diskBytes: 0,
    payloadBytes: 0,
  });
});

it("the volume of a host is that of the last 24 whole hours, beside the median of its days", async () => {
  const now = Date.UTC(2027, 0, 20, 10, 30);
  for (let day = 9; day >= 0; day -= 1)
    await store("steady", now - day * dayMs, day === 4 ? 9_000_000 : 1_000);
  await store("new", now - hourMs, 77);
  await foldHours(db, now);
  const volumes = async () => {
    const rows = await db.execute(
      sql`select host_id, day_bytes::int, usual_bytes::int from host_volume where host_id in ('steady', 'new') order by 1`,
    );
    return [...rows];
  };
  await Promise.all([1, 2].map(() => refreshHostVolumes(db, now, { withUsual: true })));
  expect(await volumes()).toEqual([
    { host_id: "new", day_bytes: 77, usual_bytes: null },
    { host_id: "steady", day_bytes: 1_000, usual_bytes: 1_000 },
  ]);
  await refreshHostVolumes(db, now + 3 * dayMs, { withUsual: false });
  expect(await volumes()).toEqual([
    { host_id: "new", day_bytes: 0, usual_bytes: null },
    { host_id: "steady", day_bytes: 0, usual_bytes: 1_000 },
  ]);
});
