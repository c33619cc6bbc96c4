import { beforeEach, expect, it } from "vitest";
import { settleHours } from "#functions/domain/completeness/settle-hours.ts";
import { writeStatement } from "#functions/domain/completeness/write-statement.ts";
import { hourMs } from "#kit/clock.ts";
import { parseStatementFile } from "#proto/completeness/statement-file.ts";
import { storeAccount } from "../support/accounts.ts";
import { createTestToken } from "../support/collector.ts";
import { failsWith, startTestAdmin } from "./support/admin.ts";

const { web, signIn, adminAt } = await startTestAdmin();
const { core, clock, db } = web.core;
const { enroll } = await createTestToken(web.core);
const host = await enroll("web-17");
await enroll("web-18");
const admin = adminAt();
const first = clock.now() - (clock.now() % hourMs);
await storeAccount(db, host.identity, first, { queueFull: 310, filtered: { "no-debug": 7 } });
await clock.advance(first + hourMs + 20 * 60_000 - clock.now());
const owner = "01920000-0000-7000-8000-000000000001";
await settleHours(core, { owner, retentionDays: 400 });
await writeStatement({ ...core, logSigner: null }, owner);
beforeEach(async () => {
  await clock.advance(1000);
  await signIn("auditor");
});

const hour = new Date(first).toISOString();

it("lists the hosts with incomplete hours, and what the worst is short of", async () => {
  const { exitCode, out } = await admin.run("completeness");
  expect(exitCode).toBe(0);
  expect(out).toMatch(new RegExp(`^web-17 +1 +${hour} +short +dropped 310$`, "m"));
  expect(out).not.toContain("web-18");
});

it("shows the hours of a host, of a range and of a state, also as JSON", async () => {
  expect(await admin.json`completeness web-17 --from 2h --state short`).toMatchObject([
    {
      from: hour,
      state: "short",
      shortages: [{ kind: "dropped", count: 310 }],
      figures: { accepted: 1000 },
    },
  ]);
  const table = await admin.run`completeness web-17 --from ${hour}`;
  expect(table.out).toMatch(
    new RegExp(`^${hour} +short +1000 +1000 +dropped 310 +no-debug dropped 7$`, "m"),
  );
  expect(table.out).toMatch(/ not decided/);
});

it("writes the statement of an hour, of all hosts or of one with its accounts", async () => {
  const { exitCode, out, err } = await admin.run`completeness statement ${hour}`;
  expect(err).toBe("");
  expect(exitCode).toBe(0);
  expect(parseStatementFile(out).lines).toHaveLength(2);
  const own = parseStatementFile(
    (await admin.run`completeness statement ${hour} --host web-17`).out,
  );
  const stated = { text: expect.stringContaining("queue_full=310"), accounts: [{ refused: null }] };
  expect(own).toMatchObject({
    only: expect.stringContaining("web-17"),
    lines: [stated, { accounts: [] }],
  });
  const none = await admin.run`completeness statement 2020-01-01T10:00:00Z`;
  expect(none).toEqual(failsWith(1, "no statement"));
});
