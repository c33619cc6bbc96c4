import { sql } from "drizzle-orm";
import { afterAll, describe, expect, it } from "vitest";
import { seedFleet } from "../../../scripts/lab/seed-fleet.ts";
import { createTestCore } from "../../../tests/support/core.ts";
import { textStream } from "../../http/text-stream.ts";
import { exportFleet } from "./export-fleet.ts";

const test = await createTestCore();
afterAll(() => test.close());
await seedFleet(test.db, { count: 4000, now: new Date(test.clock.now()) });
const { userId, email, scopes } = test.people.auditor;

const start = async () => {
  const { batches } = await exportFleet(test.core, {
    kind: "config_drift",
    filter: {},
    operator: { userId, email, scopes },
    origin: { requestId: "request", remoteAddress: "192.0.2.1" },
    asked: {},
  });
  const texts = async function* () {
    for await (const rows of batches) yield rows.map(({ id }) => `${id}\n`).join("");
  };
  return textStream(texts(), { clock: test.clock, idleMs: 60_000 }).getReader();
};
const lastEvent = async () => {
  const query = sql`select outcome, reason, (details->>'rows')::int as rows from audit_event
    where action = 'fleet.export' order by id desc limit 1`;
  return (
    await test.db.execute<{ outcome: string; reason: string | null; rows: number }>(query)
  )[0];
};

const eventCount = async () =>
  (await test.db.execute(sql`select 1 from audit_event where action = 'fleet.export'`)).length;

describe("an export", () => {
  it("yields every row once, in batches, and is audited before the reader reaches the end", async () => {
    const reader = await start();
    const chunks: string[] = [];
    for (let { done, value } = await reader.read(); !done; { done, value } = await reader.read())
      chunks.push(new TextDecoder().decode(value));
    const ids = chunks.join("").trimEnd().split("\n");
    expect(chunks.length).toBeGreaterThan(1);
    expect(new Set(ids).size).toBe(ids.length);
    expect(await lastEvent()).toEqual({ outcome: "success", reason: null, rows: ids.length });
  });

  it("is audited with the number of rows when its reader stops reading", async () => {
    await test.clock.advance(1000);
    const reader = await start();
    await reader.read();
    const before = await eventCount();
    while ((await eventCount()) === before) await test.clock.advance(60_000);
    await expect(reader.closed).rejects.toThrow("no read for 60 s");
    expect(await lastEvent()).toMatchObject({
      outcome: "failure",
      reason: "the reader disconnected before the end",
    });
  });

  it("is audited with the number of rows when its reader disconnects", async () => {
    await test.clock.advance(1000);
    const reader = await start();
    await reader.read();
    await reader.cancel();
    const event = await lastEvent();
    expect(event).toMatchObject({
      outcome: "failure",
      reason: "the reader disconnected before the end",
    });
    expect(event?.rows).toBeLessThan(3000);
  });
});
