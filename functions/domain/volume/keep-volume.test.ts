import { sql } from "drizzle-orm";
import { describe, expect, it } from "vitest";
import { tryLock } from "#functions/store/database/try-lock.ts";
import { dayMs, hourMs } from "#kit/clock.ts";
import { createTestClock } from "#tests/fakes/clock.ts";
import { useTestDatabase } from "#tests/support/database.ts";
import { createVolumeKeeper } from "./keep-volume.ts";

const database = await useTestDatabase();
const { db } = database.connect();
const start = Date.UTC(2027, 0, 20, 10, 30);

const storeDays = async (host: string, endMs: number) => {
  for (const days of [3, 4, 5])
    await db.execute(sql`insert into ingest_hour (host_id, kind, hour, envelopes, payload_bytes)
      values (${host}, 'log_line', ${new Date(endMs - days * dayMs).toISOString()}::timestamptz, 1, 1000)`);
  await db.execute(sql`insert into host_volume (host_id, day_bytes) values (${host}, 1)`);
};
const usualOf = async (host: string) => {
  const rows = await db.execute<{ usual: number | null }>(
    sql`select usual_bytes::int as usual from host_volume where host_id = ${host}`,
  );
  return rows[0]?.usual;
};

describe("a tick in the same hour", () => {
  it("refreshes usual volumes after a refresh failed whose hours had been folded", async () => {
    const clock = createTestClock(start);
    const tick = createVolumeKeeper({ db, clock });
    await tick();
    await clock.advance(hourMs);
    await storeDays("failed", start);
    await db.execute(sql`alter table host_volume add constraint "full" check (day_bytes > 0)`);
    await expect(tick()).rejects.toThrow();
    expect(await usualOf("failed")).toBeNull();
    await db.execute(sql`alter table host_volume drop constraint "full"`);
    await tick();
    expect(await usualOf("failed")).toBe(1000);
  });

  it("refreshes volumes when another core had the lock", async () => {
    const tick = createVolumeKeeper({ db, clock: createTestClock(start) });
    await storeDays("locked", start);
    await db.transaction(async (tx) => {
      expect(await tryLock(tx, "volume")).toBe(true);
      await tick();
    });
    expect(await usualOf("locked")).toBeNull();
    await tick();
    expect(await usualOf("locked")).toBe(1000);
  });
});
