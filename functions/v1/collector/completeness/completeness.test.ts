import { createHash } from "node:crypto";
import { sql } from "drizzle-orm";
import { describe, expect, it } from "vitest";
import { exportStatement } from "#functions/domain/completeness/export-statement.ts";
import { settleHours } from "#functions/domain/completeness/settle-hours.ts";
import { writeStatement } from "#functions/domain/completeness/write-statement.ts";
import { zstdCodec } from "#functions/node/ingest/zstd-codec.ts";
import { noteQueues } from "#functions/store/ingest/queues.ts";
import { hourMs } from "#kit/clock.ts";
import type { FleetCompleteness, HostCompleteness } from "#proto/completeness/report.ts";
import { exportThrough, storeAccount } from "#tests/support/accounts.ts";
import { createTestToken } from "#tests/support/collector.ts";
import { useTestCore } from "#tests/support/core.ts";

const test = await useTestCore();
const { clock, core, db } = test;
const first = clock.now() - (clock.now() % hourMs);
const { enrollAll } = await createTestToken(test);
const [a, b, c] = await enrollAll("a", "b", "c");
await exportThrough(db, 100);
const ruled = { filtered: { "no-debug": 340 }, redacted: { cards: 12, "no-debug": 1 } };
// Three hours: a is complete, b is short of 310 and then of 7 records, c sends an account of the first only.
for (const [index, dropped] of [0, 310, 7].entries()) {
  await storeAccount(db, a.identity, first + index * hourMs, index === 0 ? ruled : {});
  await storeAccount(db, b.identity, first + index * hourMs, { queueFull: dropped });
}
await storeAccount(db, c.identity, first, { xid: 200n });
const queueOfC = createHash("md5").update(c.identity).digest();
await noteQueues(
  db,
  [{ hostId: c.identity, queueId: queueOfC, sendsAccounts: true }],
  new Date(clock.now()),
);
const settlesFirst = (await test.auditor.get<FleetCompleteness>("/v1/collector/completeness")).body;
await clock.advance(first + 3 * hourMs + 16 * 60_000 - clock.now());
await db.execute(sql`insert into completeness_progress (hour, received_before)
  values (${new Date(first - hourMs).toISOString()}::timestamptz, ${new Date(first).toISOString()}::timestamptz)`);
const owner = "01920000-0000-7000-8000-000000000001";
for (let hour = 0; hour < 3; hour += 1) await settleHours(core, { owner, retentionDays: 400 });

const at = (index: number) => new Date(first + index * hourMs).toISOString();
const { get } = test.auditor;
const fleet = async (query: string) =>
  (await get<FleetCompleteness>(`/v1/collector/completeness?${query}`)).body;

describe("the completeness of a host", () => {
  it("has every hour of a week since its enrollment, with figures, shortages and the ranges of accounts", async () => {
    const { status, body } = await get<HostCompleteness>(
      `/v1/collector/hosts/${b.identityId}/completeness`,
    );
    expect(status).toBe(200);
    expect(body.hours.map(({ from }) => from)).toEqual([0, 1, 2, 3].map(at));
    expect(body.hours.at(-1)).toMatchObject({
      from: at(3),
      state: null,
      figures: null,
      accounts: [],
    });
    expect(body.hours.slice(-4, -1).map(({ state }) => state)).toEqual([
      "complete",
      "short",
      "short",
    ]);
    expect(body.hours.at(-3)).toMatchObject({
      from: at(1),
      shortages: [{ kind: "dropped", count: 310 }],
      figures: {
        accepted: 1000,
        stored: 1000,
        refused: { queue_full: 310 },
        ran_seconds: 3600,
        delivered: [{ export: "backend", delivered: true }],
      },
    });
    const [account] = body.hours.at(-3)?.accounts ?? [];
    expect(Number(account?.last_sequence) - Number(account?.first_sequence)).toBe(999);
    expect(account).toMatchObject({ from: at(1), to: at(2), stopped: false, refused: null });
  });

  it("has what its rules dropped and redacted in an hour, which stays complete", async () => {
    const { body } = await get<HostCompleteness>(
      `/v1/collector/hosts/${a.identityId}/completeness`,
    );
    expect(body.hours.slice(0, 2)).toMatchObject([
      {
        state: "complete",
        shortages: [],
        figures: {
          accepted: 1000,
          rules: [
            { rule: "no-debug", filtered: 340, redacted: 1 },
            { rule: "cards", filtered: 0, redacted: 12 },
          ],
        },
      },
      { figures: { rules: [] } },
    ]);
  });

  it("has the hours of a range, in whole hours, and is 404 for a host that is not enrolled", async () => {
    const path = `/v1/collector/hosts/${c.identityId}/completeness`;
    const { body } = await get<HostCompleteness>(
      `${path}?from=${at(0)}&to=${new Date(first + 1.5 * hourMs).toISOString()}`,
    );
    expect(body.hours.map(({ from, state }) => [from, state])).toEqual([
      [at(0), "undelivered"],
      [at(1), "silent"],
    ]);
    expect(body.hours[0]?.figures?.delivered).toEqual([
      { export: "backend", delivered: false, rejected: 0, rejected_items: 0 },
    ]);
    const unknown = "/v1/collector/hosts/01920000-0000-7000-8000-000000000000/completeness";
    expect(await get(unknown)).toMatchObject({ body: { code: "not_found" } });
  });

  it("has no hour after its revocation", async () => {
    const revoke = (time: string | null) =>
      db.execute(
        sql`update collector_identity set revoked_at = ${time}::timestamptz where id = ${a.identityId}::uuid`,
      );
    await revoke(at(3));
    const { body } = await get<HostCompleteness>(
      `/v1/collector/hosts/${a.identityId}/completeness`,
    );
    expect(body.hours.map(({ from }) => from)).toEqual([0, 1, 2].map(at));
    await revoke(null);
  });

  it("rejects ranges that are empty, too long or no time", async () => {
    const path = `/v1/collector/hosts/${c.identityId}/completeness`;
    const refused = { status: 422, body: { code: "validation_failed" } };
    for (const range of [`from=${at(1)}&to=${at(1)}`, "from=32d", "from=yesterday"])
      expect(await get(`${path}?${range}`)).toMatchObject(refused);
  });
});

describe("the completeness of the fleet", () => {
  it("says when core settles the next hour, before the first one too", async () => {
    const minutes = (count: number) => new Date(first + count * 60_000).toISOString();
    expect(settlesFirst).toMatchObject({ settled_until: null, settles_at: minutes(75) });
    expect(await fleet("limit=1")).toMatchObject({ settles_at: minutes(4 * 60 + 15) });
  });

  it("counts the hosts of each state by hour, and lists those with the largest loss first", {
    tags: "workerd",
  }, async () => {
    const body = await fleet("from=24h");
    expect(body).toMatchObject({
      hosts: 3,
      hosts_listed: 2,
      settled_until: at(3),
      next_cursor: null,
    });
    expect(body.hours).toEqual([
      { from: at(0), hosts: { complete: 2, undelivered: 1 } },
      { from: at(1), hosts: { complete: 1, short: 1, silent: 1 } },
      { from: at(2), hosts: { complete: 1, short: 1, silent: 1 } },
    ]);
    expect(body.items.map(({ device_id, hours }) => [device_id, hours])).toEqual([
      ["b", 2],
      ["c", 2],
    ]);
    expect(body.items[0]?.worst).toEqual({
      from: at(1),
      state: "short",
      shortages: [{ kind: "dropped", count: 310 }],
    });
    expect(body.items[0]).toMatchObject({ from: at(0) });
    expect(body.items[0]?.runs).toEqual([
      { state: "complete", hours: 1, shortages: [] },
      { state: "short", hours: 2, shortages: [{ kind: "dropped", count: 317 }] },
      { state: null, hours: 1, shortages: [] },
    ]);
    expect(body.items.map(({ open_queues }) => open_queues)).toEqual([
      [],
      [queueOfC.toString("hex")],
    ]);
  });

  it("counts only the hours of the range and of the states that were asked for", async () => {
    expect((await fleet(`from=${at(2)}&to=${at(3)}`)).items.map(({ hours }) => hours)).toEqual([
      1, 1,
    ]);
    expect((await fleet(`from=${at(0)}&to=${at(1)}`)).items).toEqual([]);
    const named = async (query: string) =>
      (await fleet(query)).items.map(({ device_id, hours }) => [device_id, hours]);
    expect(await named("state=short")).toEqual([["b", 2]]);
    expect(await named("state=complete&state=undelivered")).toEqual([
      ["a", 3],
      ["b", 1],
      ["c", 1],
    ]);
    expect(await named("state=complete&host=a")).toEqual([["a", 3]]);
    expect(await named(`host=${encodeURIComponent(c.identity)}`)).toEqual([["c", 2]]);
  });

  it("is paged by a cursor, which no other list takes", async () => {
    const page = await fleet("limit=1");
    expect(page.items.map(({ device_id }) => device_id)).toEqual(["b"]);
    const next = await fleet(`limit=1&cursor=${page.next_cursor}`);
    expect(next.items.map(({ device_id }) => device_id)).toEqual(["c"]);
    expect(next).toMatchObject({ next_cursor: null, hosts_listed: 2 });
    const other = await get(`/v1/collector/health?cursor=${page.next_cursor}`);
    expect(other).toMatchObject({ body: { code: "validation_failed" } });
  });

  it("is exported as CSV, a record for each hour, audited", async () => {
    const { status, body } = await get<string>("/v1/collector/completeness/export.csv?state=short");
    expect(status).toBe(200);
    const [head, ...records] = body.trim().split("\r\n");
    expect(head).toBe(
      "hour,identity,identity_id,device_id,state,accepted,stored,account_refused,accounts_lost,dropped,rejected,lost_in_restore,missing,file_gap,export_rejected,export_rejected_items,unknown",
    );
    expect(records).toEqual([
      `${at(1)},${b.identity},${b.identityId},b,short,1000,1000,,,310,,,,,,,`,
      `${at(2)},${b.identity},${b.identityId},b,short,1000,1000,,,7,,,,,,,`,
    ]);
    const { body: events } = await get("/v1/audit-events?action=completeness.export");
    expect(events.items).toMatchObject([{ outcome: "success", details: { rows: 2 } }]);
  });
});

it("what an export rejected makes the hour of its account short, with the figures of the export", {
  tags: "workerd",
}, async () => {
  const account = Math.floor(first / hourMs);
  await db.execute(sql`
      insert into export_rejection (host_id, queue_id, after_sequence, name, envelopes, items, last_at)
      values (${a.identity}, decode(md5(${a.identity}), 'hex'), ${(account - 1) * 1_000}::bigint, 'backend', 2, 7, now())`);
  await settleHours(core, { owner, retentionDays: 400 });
  const range = `from=${at(0)}&to=${at(1)}`;
  const { body } = await get<HostCompleteness>(
    `/v1/collector/hosts/${a.identityId}/completeness?${range}`,
  );
  expect(body.hours).toMatchObject([
    {
      state: "short",
      shortages: [
        { kind: "export_rejected", count: 2 },
        { kind: "export_rejected_items", count: 7 },
      ],
      figures: {
        delivered: [{ export: "backend", delivered: true, rejected: 2, rejected_items: 7 }],
      },
    },
  ]);
  const csv = await get(`/v1/collector/completeness/export.csv?state=short&host=a&${range}`);
  expect(csv.body).toContain("a,short,1000,1000,,,,,,,,2,7");
});

describe("the statement of an hour", () => {
  const path = "/v1/collector/completeness/statements";

  it("is the file that svc-server writes, of all hosts or of one, and audited", {
    tags: "workerd",
  }, async () => {
    await writeStatement({ ...core, logSigner: null }, owner);
    const fileOf = async (order: { host?: string; withAccounts: boolean }) => {
      const given = { hour: new Date(first + 2 * hourMs), ...order };
      return (await Array.fromAsync(exportStatement({ db, codec: zstdCodec }, given))).join("");
    };
    const whole = await get<string>(`${path}/${encodeURIComponent(at(2))}`);
    expect(whole).toMatchObject({ status: 200, body: await fileOf({ withAccounts: false }) });
    expect(whole.body).toContain(
      `${b.identity} short accepted=1000 stored=1000 queue_full=7 short=dropped`,
    );
    // Any time of the hour, and the host's own name.
    const within = new Date(first + 2.5 * hourMs).toISOString();
    const own = await get<string>(`${path}/${encodeURIComponent(within)}?host=b`);
    expect(own.body).toBe(await fileOf({ host: b.identity, withAccounts: true }));
    expect(own.body.match(/^(line|account) /gm)).toEqual(["line ", "line ", "account ", "line "]);
    const { body: events } = await get<{ items: unknown[] }>(
      "/v1/audit-events?action=completeness.read",
    );
    expect(events.items).toMatchObject([
      {
        target: { id: at(2).replace(".000Z", "Z") },
        details: { host: b.identity, accounts: true },
      },
      { details: { accounts: false } },
    ]);
  });

  it("is 404 for an hour that has none, and 422 for no time", async () => {
    expect(await get(`${path}/2020-01-01T10:00:00Z`)).toMatchObject({
      body: { code: "not_found" },
    });
    for (const wrong of ["yesterday", "1h?since=-1"])
      expect(await get(`${path}/${wrong}`)).toMatchObject({ body: { code: "validation_failed" } });
  });
});
