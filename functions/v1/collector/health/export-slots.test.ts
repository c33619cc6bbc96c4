import { expect, it } from "vitest";
import { seedFleet } from "#scripts/lab/seed-fleet.ts";
import { useTestCore } from "#tests/support/core.ts";

const test = await useTestCore();
await seedFleet(test.db, { count: 10, now: new Date(test.clock.now()) });

const begin = async (name: "auditor" | "admin" = "auditor", kind = "stale") => {
  const headers = { Authorization: `Bearer ${await test.bridgeToken(name)}` };
  return test.fetch(
    new Request(`http://core.test/v1/collector/health/export.csv?kind=${kind}`, { headers }),
  );
};
const statuses = async (responses: Promise<Response>[]) =>
  (await Promise.all(responses)).map(({ status }) => status);

it("allows an operator eight concurrent exports, and one more when one ends or its reader stops reading", async () => {
  const stalled = await Promise.all(Array.from({ length: 8 }, () => begin()));
  expect(stalled.map(({ status }) => status)).toEqual(Array(8).fill(200));

  const refused = await begin();
  expect([refused.status, refused.headers.get("retry-after")]).toEqual([429, "60"]);
  expect(await refused.json()).toMatchObject({ code: "too_many_exports", action: "retry" });
  expect(await statuses([begin("auditor", "nonsense"), begin("admin")])).toEqual([422, 200]);

  await stalled[0]?.text();
  await stalled[1]?.body?.cancel();
  expect(await statuses([begin(), begin()])).toEqual([200, 200]);
  expect((await begin()).status).toBe(429);

  const readable = async () => {
    await test.clock.advance(60_000);
    const response = await begin();
    return response.status === 200 && (await response.text()) !== "";
  };
  while (!(await readable()));
  await expect(stalled[2]?.text()).rejects.toThrow();
});
