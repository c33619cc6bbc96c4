import { sql } from "drizzle-orm";
import { expect, it, onTestFinished } from "vitest";
import { heartbeatBody } from "#scripts/lab/heartbeat-body.ts";
import { createTestToken, manage } from "#tests/support/collector.ts";
import { createTestCore } from "#tests/support/core.ts";

const minute = 60_000;
const hour = 60 * minute;

/** A host that was enrolled two hours ago and reports every minute from then on. */
const setUp = async () => {
  const test = await createTestCore();
  onTestFinished(() => test.close());
  const { enroll } = await createTestToken(test);
  const host = await enroll("web-1");
  const beat = async (over: object = {}) => {
    const { status } = await manage(test, host, "heartbeat", {
      ...heartbeatBody(test.clock.now()),
      ...over,
    });
    expect(status).toBe(200);
  };
  const found = async (query: string) => {
    const { body } = await test.auditor.get<{ items: unknown[] }>(`/v1/collector/health?${query}`);
    return body.items.length === 1;
  };
  const changedWithin = (seconds: number) => found(`changed_within_seconds=${seconds}`);
  return { test, host, beat, found, changedWithin };
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
    const { test, beat, changedWithin } = await setUp();
    const running = { config: { ...body.config, running_config_hash: null } };
    await beat(running);
    await test.clock.advance(minute);
    await beat({ ...running, ...trouble });
    await test.clock.advance(2 * minute);
    await beat({ ...running, ...trouble });
    expect(await changedWithin(60)).toBe(false);
    await test.clock.advance(minute);
    await beat(running);
    expect(await changedWithin(60)).toBe(true);
    await test.clock.advance(minute);
    await beat(running);
    expect([await changedWithin(60), await changedWithin(59)]).toEqual([true, false]);
  },
);

it("a host that was stale has changed with its next heartbeat, and one that waited for its first after 15 minutes", async () => {
  const { test, beat, changedWithin } = await setUp();
  await test.clock.advance(hour);
  await beat();
  expect(await changedWithin(60)).toBe(true);
  await test.clock.advance(3 * minute);
  await beat();
  // Three intervals to the millisecond: not stale.
  expect(await changedWithin(60)).toBe(false);
  await test.clock.advance(3 * minute + 1);
  await beat();
  expect(await changedWithin(60)).toBe(true);
});

it("a host whose certificate was about to expire has changed with the new one, and not if it was renewed in time", async () => {
  const { test, host, beat, changedWithin } = await setUp();
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
  await beat();
  await test.clock.advance(hour);
  await beat();
  await test.clock.advance(2 * minute);
  await renewed(lifetime / 4 + 1);
  expect(await changedWithin(60)).toBe(false);
  await renewed(lifetime / 4 - 1);
  expect(await changedWithin(60)).toBe(true);
});
