import { sql } from "drizzle-orm";
import { expect, it } from "vitest";
import { textStream } from "#functions/http/text-stream.ts";
import { useTestCore } from "#tests/support/core.ts";
import { exportFleet } from "./export-fleet.ts";

const test = await useTestCore();
await test.seedFleet(4000);
const { userId, email, scopes } = test.people.auditor;

const start = async () => {
  const { batches } = await exportFleet(test.core, {
    kind: "config_drift",
    filter: {},
    caller: { userId, email, scopes },
    origin: { requestId: "request", remoteAddress: "192.0.2.1" },
    asked: {},
  });
  const texts = async function* () {
    for await (const rows of batches)
      yield rows.map(({ identity_id }) => `${identity_id}\n`).join("");
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

it("an export yields every row once, in batches, and is audited before the reader reaches the end", async () => {
  const reader = await start();
  const chunks: string[] = [];
  for (let { done, value } = await reader.read(); !done; { done, value } = await reader.read())
    chunks.push(new TextDecoder().decode(value));
  const ids = chunks.join("").trimEnd().split("\n");
  expect(chunks.length).toBeGreaterThan(1);
  expect(new Set(ids).size).toBe(ids.length);
  expect(await lastEvent()).toEqual({ outcome: "success", reason: null, rows: ids.length });
});
