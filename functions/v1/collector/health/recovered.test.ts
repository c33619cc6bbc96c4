import { sql } from "drizzle-orm";
import { expect, it, onTestFinished } from "vitest";
import { heartbeatBody } from "#scripts/lab/heartbeat-body.ts";
import { createTestToken, sendHeartbeat } from "#tests/support/collector.ts";
import { createTestCore } from "#tests/support/core.ts";

const minute = 60_000;
const hour = 60 * minute;

/** A host that was enrolled two hours ago and reports every minute from then on. */
const setUp = async () => {
  const test = await createTestCore();
  onTestFinished(() => test.close());
  const { enroll } = await createTestToken(test);
  const host = await enroll("web-1");
  /** Sends a heartbeat some minutes later. */
  const beatAfter = async (minutes: number, over: object = {}) => {
    await test.clock.advance(minutes * minute);
    expect((await sendHeartbeat(test, host, { ...over })).status).toBe(200);
  };
  const changedWithin = async (seconds: number) => {
    const path = `/v1/collector/health?changed_within_seconds=${seconds}`;
    return (await test.auditor.read<{ items: unknown[] }>(path)).items.length === 1;
  };
  return { test, host, beatAfter, changedWithin };
};

const body = heartbeatBody(0) as Record<"config" | "queue" | "renewal", object>;
const troubles: Readonly<Record<string, object>> = {
  config_invalid: { config: { valid: false, errors: ["bad"], running_config_hash: null } },
  queue_at_risk: { queue: { ...body.queue, at_risk: true } },
  renewal_failed: { renewal: { ...body.renewal, status: "failed", last_error: "reenroll" } },
};

it.each(Object.entries(troubles))(
  "a host that recovers from %s has changed, for an hour",
  async (_, trouble) => {
    const { beatAfter, changedWithin } = await setUp();
    const running = { config: { ...body.config, running_config_hash: null } };
    await beatAfter(0, running);
    await beatAfter(1, { ...running, ...trouble });
    await beatAfter(2, { ...running, ...trouble });
    expect(await changedWithin(60)).toBe(false);
    await beatAfter(1, running);
    expect(await changedWithin(60)).toBe(true);
    await beatAfter(1, running);
    expect([await changedWithin(60), await changedWithin(59)]).toEqual([true, false]);
  },
);

it("a host that was stale has changed with its next heartbeat, and one that waited for its first after 15 minutes", async () => {
  const { test, beatAfter, changedWithin } = await setUp();
  await beatAfter(60);
  expect(await changedWithin(60)).toBe(true);
  await beatAfter(3);
  // Three intervals to the millisecond: not stale.
  expect(await changedWithin(60)).toBe(false);
  await test.clock.advance(1);
  await beatAfter(3);
  expect(await changedWithin(60)).toBe(true);
});

it("a host whose certificate was about to expire has changed with the new one, and not if it was renewed in time", async () => {
  const { test, host, beatAfter, changedWithin } = await setUp();
  const lifetime = 21 * 24 * hour;
  const renewed = async (leftMs: number) => {
    const at = (ms: number) => sql`${test.clock.iso(ms)}::timestamptz`;
    await test.db.transaction(async (tx) => {
      await tx.execute(sql`update certificate set not_after = ${at(leftMs)}, issued_at = ${at(leftMs - lifetime)}
        where id = ${host.certificateId}::uuid`);
      await tx.execute(
        sql`delete from certificate where predecessor_id = ${host.certificateId}::uuid`,
      );
      await tx.execute(sql`insert into certificate (id, identity_id, predecessor_id, status, serial_number, fingerprint_sha256,
          spki_sha256, certificate_pem, chain_pem, not_before, not_after, renew_after, issued_at)
        select ${crypto.randomUUID()}::uuid, identity_id, id, 'active', '', ${`late ${leftMs}`}::bytea, '', '', '', ${at(0)},
          ${at(lifetime)}, ${at(lifetime / 2)}, ${at(0)} from certificate where id = ${host.certificateId}::uuid`);
    });
  };
  await beatAfter(0);
  await beatAfter(60);
  await test.clock.advance(2 * minute);
  await renewed(lifetime / 4 + 1);
  expect(await changedWithin(60)).toBe(false);
  await renewed(lifetime / 4 - 1);
  expect(await changedWithin(60)).toBe(true);
});
