import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeEach, expect, it } from "vitest";
import { settleHours } from "../../functions/domain/completeness/settle-hours.ts";
import { hourMs } from "../../kit/clock.ts";
import { storeAccount } from "../support/accounts.ts";
import { createAdminUser } from "../support/admin.ts";
import { createTestToken, enrollTestCollector } from "../support/collector.ts";
import { startTestWeb } from "../support/web.ts";

const web = await startTestWeb();
const home = createAdminUser();
const tokenFile = join(home.home, "token");
const { core, clock, db } = web.core;
const { token } = await createTestToken(web.core);
const host = await enrollTestCollector(web.core, { token, deviceId: "web-17" });
await enrollTestCollector(web.core, { token, deviceId: "web-18" });
const admin = createAdminUser({ env: { SVC_ADMIN_URL: web.origin, SVC_ADMIN_TOKEN_FILE: tokenFile } });
const first = clock.now() - (clock.now() % hourMs);
await storeAccount(db, host.identity, first, { queueFull: 310 });
await clock.advance(first + hourMs + 20 * 60_000 - clock.now());
await settleHours(core, { owner: "01920000-0000-7000-8000-000000000001", retentionDays: 400 });
beforeEach(async () => {
  await clock.advance(1000);
  writeFileSync(tokenFile, await web.core.bridgeToken("auditor"));
});
afterAll(async () => {
  for (const user of [home, admin]) user.close();
  await web.close();
});

const hour = new Date(first).toISOString();

it("lists the hosts with incomplete hours, and what the worst is short of", async () => {
  const { exitCode, out } = await admin.run("completeness");
  expect(exitCode).toBe(0);
  expect(out).toMatch(new RegExp(`^web-17 +1 +${hour} +short +dropped 310$`, "m"));
  expect(out).not.toContain("web-18");
});

it("shows the hours of a host, of a range and of a state, also as JSON", async () => {
  const { out } = await admin.run("completeness", "web-17", "--from", "2h", "--state", "short", "-o", "json");
  expect(JSON.parse(out)).toMatchObject([
    { from: hour, state: "short", shortages: [{ kind: "dropped", count: 310 }], figures: { accepted: 1000 } },
  ]);
  const table = await admin.run("completeness", "web-17", "--from", hour);
  expect(table.out).toMatch(new RegExp(`^${hour} +short +1000 +1000 +dropped 310$`, "m"));
  expect(table.out).toMatch(/ not decided/);
});
