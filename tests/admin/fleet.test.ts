import { sql } from "drizzle-orm";
import { describe, expect, it } from "vitest";
import { createHistoryKeeper } from "#functions/domain/fleet/keep-history.ts";
import { createTestToken } from "../support/collector.ts";
import { startTestAdmin } from "./support/admin.ts";

const { web, signIn, adminAt } = await startTestAdmin();
const admin = adminAt();
const { json } = admin;
await createHistoryKeeper(web.core.core)();
const before = new Date(web.clock.now()).toISOString();
const minuteLater = `${new Date(web.clock.now() + 60_000).toISOString().slice(0, 16)}Z`;
await web.clock.advance(3_600_000);
await signIn("auditor");
const { enroll } = await createTestToken(web.core);
const { identityId } = await enroll("later-1");
await web.clock.advance(60_000);

describe("hosts", () => {
  it("are shown as they were, by core's clock or in UTC", async () => {
    expect(await json`fleet list device:later-1`).toHaveLength(1);
    for (const at of [before, minuteLater, "30m"])
      expect(await json`fleet list --at ${at} device:later-1`).toEqual([]);
    expect(await json`fleet list device:later-1 --at 30s`).toHaveLength(1);
    const shown = await json`fleet show --at 30s ${identityId}`;
    expect(shown).toMatchObject({ at: expect.any(String), item: { device_id: "later-1" } });
  });

  it("are said to be held by their budget, and until when", async () => {
    const until = new Date(web.clock.now() + 60_000).toISOString();
    await web.core.db.execute(sql`insert into held_host (host_id, identity_id, budget, since, until)
      select identity, identity_id, 'small', now(), ${until}::timestamptz from fleet_host where device_id = 'later-1'`);
    const { out } = await admin.run`fleet show ${identityId}`;
    expect(out).toMatch(new RegExp(`^forwarding +held by its budget small until ${until}$`, "m"));
  });

  it("are not shown of a time that they were not enrolled at, nor of one that is watched", async () => {
    expect(await admin.run`fleet show --at ${before} ${identityId}`).toMatchObject({
      exitCode: 1,
    });
    expect(await admin.run`fleet list --at 30m --watch`).toMatchObject({
      exitCode: 2,
    });
  });
});

it("says what runs out, with the figures that it is computed from", async () => {
  const { tokens } = await json`fleet ahead --hours 336`;
  expect(tokens.items.map(({ uses_left }: { uses_left: number | null }) => uses_left)).toEqual([
    null,
  ]);
  const { out, err } = await admin.run`fleet ahead --hours 336`;
  expect(out).toMatch(/^what +of +at +from\n[\s\S]*token +.* any number of uses left/);
  expect(err).toContain("hosts do not renew, 0 queues fill");
});

it("lists what hosts changed, with the comparison or until when it soaks, and how many more there are", async () => {
  await web.core.db.execute(sql`insert into fleet_change values
    (gen_random_uuid(), 'version', '', '1.4.0', '1.5.0', ${before}::timestamptz, ${before}::timestamptz, 7, null)`);
  const hour = Math.floor(web.clock.now() / 3_600_000);
  await web.core.db.execute(sql`insert into fleet_change_hour values (${hour - 1}::int, 3)`);
  const { out, err } = await admin.run`fleet changes`;
  expect(out).toMatch(/^version 1\.4\.0 to 1\.5\.0 +7 .* +soaks until 20/m);
  expect(err).toContain("3 further changes of the last 24 h are not compared");
});
