import { sql } from "drizzle-orm";
import { expect, it } from "vitest";
import { useTestCore } from "#tests/support/core.ts";

const test = await useTestCore();

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
    expect((await Promise.all(requests)).map(({ status }) => status)).toEqual(Array(12).fill(200));
  });
  expect((await Promise.all(reports)).map(({ status }) => status)).toEqual(Array(15).fill(200));
});
