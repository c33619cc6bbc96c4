import { sql } from "drizzle-orm";
import { beforeEach, describe, expect, it } from "vitest";
import { holdHosts } from "#functions/domain/volume/hold-hosts.ts";
import { figuresOf } from "#functions/ops/figures.ts";
import { countHeldHosts, deleteHeldHosts, putHeldHosts } from "#functions/store/volume/budgets.ts";
import { hourMs } from "#kit/clock.ts";
import type { Budget, BudgetList } from "#proto/budget.ts";
import { budgetsMax } from "#proto/budget.ts";
import { createTestToken } from "#tests/support/collector.ts";
import { useTestCore } from "#tests/support/core.ts";

const test = await useTestCore();
const { clock, db, core } = test;
const { enrollAll } = await createTestToken(test);
const [loud, calm] = await enrollAll("loud", "calm");
const label = async (team: string) => {
  await db.execute(
    sql`update collector_identity set reported_labels = ${JSON.stringify({ team })}::jsonb where device_id = 'loud'`,
  );
  await db.execute(
    sql`update fleet_status s set label_set_id = i.label_set_id from collector_identity i where i.id = s.identity_id`,
  );
};
await label("shop");

const mib = 1024 * 1024;
const path = (name: string) => `/v1/collector/budgets/${name}`;
const put = (name: string, filter: string, bytes: number) =>
  test.admin.put<Budget>(path(name), { filter, bytes_per_hour: bytes });
const remove = (name: string) => test.admin.delete(path(name));
const list = () => test.auditor.get<BudgetList>("/v1/collector/budgets");
const store = (host: string, bytes: number, at = clock.now()) =>
  db.execute(sql`insert into ingest_hour (host_id, kind, hour, envelopes, payload_bytes)
    values (${host}, ${`kind_${bytes}`}, date_trunc('hour', ${new Date(at).toISOString()}::timestamptz, 'utc'), 2, ${bytes}::bigint)`);
const heldNow = async () =>
  (await holdHosts(core)).map(({ hostId, budget }) => [hostId, budget]).toSorted();
const expectHeld = async (expected: readonly (readonly string[])[]) =>
  expect(await heldNow()).toEqual(expected);
/** Returns the holds and releases of the audit log in their order, with host and budget. */
const events = async () =>
  (await test.events("action=budget.hold&action=budget.release&limit=1000"))
    .toReversed()
    .map(({ action, target, details }) => [action, target.id, details.budget]);
const heldByShop = [[loud.identity, "shop"]];
const samples = async () =>
  figuresOf(core, { checks: {}, credentials: () => [] })
    .find(({ name }) => name === "core_held_hosts")
    ?.read();
const fleet = async (query: string) => (await test.health(query)).items;

/** Each test begins an hour that nothing is stored in, without budgets. */
beforeEach(async () => {
  clock.advance(hourMs - (clock.now() % hourMs));
  await db.execute(sql`delete from volume_budget`);
  await holdHosts(core);
  await db.execute(sql`delete from ingest_hour`);
});

describe("a budget", () => {
  it("is set, replaced, listed with the smallest first, and deleted; each change is audited", {
    tags: "workerd",
  }, async () => {
    const created = await put("shop", "label.team:shop", 2 * mib);
    expect(created).toMatchObject({
      status: 200,
      body: { name: "shop", filter: "label.team:shop", bytes_per_hour: 2 * mib, held_hosts: 0 },
    });
    await put("all", "", 3 * mib);
    await put("shop", "label.team:shop", 4 * mib);
    expect((await list()).body.items).toMatchObject([
      { name: "all", bytes_per_hour: 3 * mib },
      { name: "shop", bytes_per_hour: 4 * mib },
    ]);
    expect((await remove("all")).status).toBe(204);
    expect((await remove("all")).status).toBe(404);
    const audited =
      await db.execute(sql`select action, target_id, details ->> 'bytes_per_hour' as bytes,
      details ->> 'bytes_per_hour_before' as before from audit_event where target_type = 'budget' order by id`);
    expect([...audited]).toMatchObject([
      { action: "budget.put", target_id: "shop", bytes: `${2 * mib}`, before: null },
      { action: "budget.put", target_id: "all" },
      { action: "budget.put", target_id: "shop", bytes: `${4 * mib}`, before: `${2 * mib}` },
      { action: "budget.delete", target_id: "all", bytes: `${3 * mib}` },
    ]);
  });

  it("is refused by how a host stands, below 1 MiB, and beyond the most", async () => {
    const refused = (at: string) => ({
      body: { code: "validation_failed", errors: [{ path: at }] },
    });
    for (const filter of ["state:stale", "budget:held", "queue:>50%", "nonsense:x"])
      expect(await put("x", filter, mib)).toMatchObject(refused("filter"));
    expect(await put("x", "", mib - 1)).toMatchObject(refused("bytes_per_hour"));
    expect(await put("X", "", mib)).toMatchObject(refused("name"));
    for (let index = 0; index < budgetsMax; index += 1) await put(`b${index}`, "", mib);
    expect((await put("one-more", "", mib)).body).toMatchObject({ code: "too_many_budgets" });
    expect((await put("b0", "", 2 * mib)).status).toBe(200);
  });

  it("holds nobody while core cannot parse its filter, as one of a newer version", async () => {
    await put("shop", "label.team:shop", mib);
    await store(loud.identity, 2 * mib);
    await store(calm.identity, 2 * mib);
    await db.execute(sql`update volume_budget set filter = 'frobnicates:shop'`);
    await expectHeld([]);
    await db.execute(sql`update volume_budget set filter = 'label.team:shop'`);
    await expectHeld(heldByShop);
  });
});

describe("a host that has sent its budget", () => {
  it("is held until the hour ends, shown and found on the fleet, and audited once at each end", async () => {
    await put("shop", "label.team:shop", 2 * mib);
    await store(loud.identity, mib);
    await store(calm.identity, 9 * mib);
    await expectHeld([]);
    await store(loud.identity, mib + 1);
    const since = (await events()).length;
    await expectHeld(heldByShop);
    await expectHeld(heldByShop);
    const hold = { budget: "shop", since: clock.iso(), until: clock.iso(hourMs) };
    expect(await fleet("budget=held")).toMatchObject([{ device_id: "loud", hold }]);
    const others = await fleet("not_budget=held");
    expect(others.map(({ device_id: device, hold: of }) => [device, of])).toEqual([
      ["calm", undefined],
    ]);
    expect((await list()).body.items).toMatchObject([{ name: "shop", held_hosts: 1 }]);
    expect(await samples()).toEqual([{ labels: { budget: "shop" }, value: 1 }]);
    clock.advance(hourMs);
    await expectHeld([]);
    expect((await list()).body.items).toMatchObject([{ name: "shop", held_hosts: 0 }]);
    expect((await events()).slice(since)).toEqual([
      ["budget.hold", loud.identityId, "shop"],
      ["budget.release", loud.identityId, "shop"],
    ]);
  });

  it("is held by the smallest of its budgets, and no longer when that is raised or deleted", async () => {
    await put("all", "", 3 * mib);
    await put("shop", "label.team:shop", 2 * mib);
    await store(loud.identity, 4 * mib);
    await expectHeld(heldByShop);
    await put("shop", "label.team:shop", 5 * mib);
    await expectHeld([[loud.identity, "all"]]);
    await remove("all");
    await expectHeld([]);
  });

  it("is held until the hour ends also if it reports another label, and no longer if its budget changes", async () => {
    await put("shop", "label.team:shop", 2 * mib);
    await store(loud.identity, 4 * mib);
    clock.advance(1_000);
    const since = (await events()).length;
    for (const team of ["shop", "web", "shop", "web"]) {
      await label(team);
      await expectHeld(heldByShop);
    }
    expect((await events()).slice(since)).toEqual([["budget.hold", loud.identityId, "shop"]]);
    clock.advance(1_000);
    await put("shop", "label.team:shop", 2 * mib);
    await expectHeld([]);
    await label("shop");
    await expectHeld(heldByShop);
    await label("web");
    clock.advance(hourMs);
    await expectHeld([]);
    await label("shop");
  });

  it("K1: is held no longer than its hour though the database's clock was two days ahead", async () => {
    await put("all", "", 3 * mib);
    const before = clock.now();
    clock.set(before + 48 * hourMs);
    await store(loud.identity, 4 * mib);
    await expectHeld([[loud.identity, "all"]]);
    clock.set(before + 60_000);
    await expectHeld([]);
  });

  it("is held, and no longer, also with more others than a statement has parameters", async () => {
    const hold = {
      budget: "all",
      since: new Date(clock.now()),
      until: new Date(clock.now() + hourMs),
    };
    const names = Array.from({ length: 66_000 }, (_, index) => `host-${index}`);
    const { identityId } = loud;
    const rows = names.slice(0, 14_000).map((hostId) => ({ hostId, identityId, ...hold }));
    await putHeldHosts(db, rows);
    await putHeldHosts(db, [{ ...hold, hostId: "host-0", identityId, budget: "shop" }]);
    expect(await countHeldHosts(db, clock.now())).toEqual(
      new Map(Object.entries({ all: 13_999, shop: 1 })),
    );
    await deleteHeldHosts(db, names);
    expect(await countHeldHosts(db, clock.now())).toEqual(new Map());
  });

  it("is decided by one core at a time", async () => {
    await put("all", "", 3 * mib);
    await store(loud.identity, 4 * mib);
    const since = (await events()).length;
    await db.transaction(async (tx) => {
      await tx.execute(sql`select pg_advisory_xact_lock(hashtext('held_host'))`);
      await expectHeld([]);
    });
    const found = await Promise.all([heldNow(), heldNow(), heldNow()]);
    expect(found).toContainEqual([[loud.identity, "all"]]);
    expect((await events()).slice(since)).toEqual([["budget.hold", loud.identityId, "all"]]);
  });
});
