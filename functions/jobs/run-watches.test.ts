import { sql } from "drizzle-orm";
import { beforeEach, expect, it } from "vitest";
import { createWatchLab } from "#tests/support/fleet/watches.ts";
import { evaluateWatches } from "../domain/watch/run-watches.ts";

const lab = await createWatchLab();
const { auditor, clock, core, create, show, act, remove, beat, tick, messages, typesOf } = lab;
beforeEach(() => lab.reset());

it("sends one message when a watch fires, with what was counted, and one when it has ended", async () => {
  const id = await create({ for_seconds: 20 });
  await beat(3);
  await tick(2);
  const { name, state, since } = await show(id);
  expect([typesOf(id), state]).toEqual([[], "pending"]);
  await tick();
  const firedAt = clock.iso();
  const filter = { filter: "label.zone:dark", more_than: 2, for_seconds: 20 };
  const search = new URLSearchParams({ label: "zone:dark", at: firedAt });
  expect(messages()).toEqual([
    {
      type: "watch.firing",
      timestamp: firedAt,
      data: {
        watch: { id, name, ...filter },
        count: 3,
        since,
        common_factor: null,
        url: `https://fleet.test/fleet?${search}`,
        line: `https://fleet.test/#watch:${id}`,
        reason: null,
      },
    },
  ]);
  await tick(5);
  expect(typesOf(id)).toEqual(["firing"]);
  await beat(2);
  await tick(3);
  expect(typesOf(id)).toEqual(["firing", "resolved"]);
  // The link has the number of the message, as the page had it then.
  const totalAt = async (query: string) =>
    (await auditor.read(`/v1/collector/health/facets?${query}`)).total;
  expect([await totalAt("label=zone%3Adark"), await totalAt(`${search}`)]).toEqual([2, 3]);
  expect(await lab.kindsOf(id)).toEqual(["firing", "delivered", "resolved", "delivered"]);
  const over = { state: "inactive", count: 2, since: null, waiting_messages: 0 };
  expect(await show(id)).toMatchObject(over);
});

it("evaluates each watch once, however many cores run", async () => {
  await create();
  await beat(8);
  await clock.advance(10_000);
  const counts = await Promise.all([1, 2, 3].map(() => evaluateWatches(core)));
  expect(counts.toSorted()).toEqual([0, 0, 1]);
  await clock.advance(3000);
  expect(await evaluateWatches(core)).toBe(0);
});

it("sends nothing of a watch in its silence, and then what still fires", async () => {
  const id = await create();
  const silenced = await act(id, "silence", { seconds: 60, reason: "rack 4" });
  expect(silenced.body).toMatchObject({ silence: { reason: "rack 4", until: clock.iso(60_000) } });
  await beat(8);
  await tick(5);
  expect([typesOf(id), (await show(id)).state]).toEqual([[], "firing"]);
  await tick();
  expect([typesOf(id), (await show(id)).silence]).toEqual([["firing"], null]);
  await act(id, "silence", { seconds: 3600 });
  await beat(0);
  await tick();
  expect(typesOf(id)).toEqual(["firing", "resolved"]);
  expect((await act(id, "silence", { seconds: 0 })).body).toMatchObject({ silence: null });
});

it("tells those who know that a watch fires when it is deleted or changed, and nobody when it was pending", async () => {
  const fires = await create();
  const changes = await create();
  const waits = await create({ for_seconds: 600 });
  await beat(8);
  await tick();
  const { revision } = await show(changes);
  const changed = await lab.change(changes, { more_than: 99, receivers: ["hook"] });
  expect(changed).toMatchObject({ status: 200 });
  for (const id of [fires, waits]) expect((await remove(id)).status).toBe(204);
  await tick(2);
  const told = ["firing", "resolved"];
  expect([fires, changes, waits].map(typesOf)).toEqual([told, told, []]);
  const reasons = messages().flatMap(({ data }) => data.reason ?? []);
  expect(reasons.toSorted()).toEqual(["changed", "deleted"]);
  expect(await show(changes)).toMatchObject({ state: "inactive", revision: revision + 1 });
});

it("stands still while core could not receive: its own outage explains what a watch counts", async () => {
  const id = await create({ filter: "hb>2m", more_than: 0 });
  await tick();
  await clock.advance(600_000);
  await evaluateWatches(core);
  expect(await show(id)).toMatchObject({ state: "inactive", held_by: { ended_at: null } });
  await lab.keepSession();
  await tick();
  const held = { state: "inactive", held_by: { counted_from: expect.any(String) } };
  expect(await show(id)).toMatchObject(held);
  // Hosts have 96 s to come back; one does not.
  await beat(0, 1);
  await tick(10);
  expect(await show(id)).toMatchObject({ state: "firing", count: 1 });
  expect(typesOf(id)).toEqual(["firing"]);
});

it("names one cause once: another watch of the same hosts waits until that has ended", async () => {
  const stale = await create({ filter: "state:stale" });
  const silent = await create({ filter: "hb>4m" });
  const elsewhere = await create({ filter: "hb>4m", receivers: ["hook", "am"] });
  for (let minutes = 0; minutes < 5; minutes += 1) {
    await tick(6);
    await beat(0, 5);
  }
  const factor = { kind: "label", value: "rack:7", selected: 5, others: 0 };
  expect(messages().map(({ type, data }) => [type, data.watch.id, data.common_factor])).toEqual([
    ["watch.firing", stale, factor],
    ["watch.firing", elsewhere, factor],
  ]);
  const explained = { state: "firing", explained_by: stale, common_factor: factor };
  expect(await show(silent)).toMatchObject(explained);
  for (const id of [stale, elsewhere]) await remove(id);
  await tick();
  expect(typesOf(silent)).toEqual(["firing"]);
  expect(await show(silent)).toMatchObject({ explained_by: null });
});

it("links to the present where the filter has no history", async () => {
  const id = await create({ filter: "incomplete<24h -device:host-0", more_than: 0 });
  await act(id, "test");
  await tick();
  const search = { not_device: "host-0", incomplete_within_seconds: "86400" };
  expect(messages()[0]?.data.url).toBe(`https://fleet.test/fleet?${new URLSearchParams(search)}`);
});

it("names the fault of a filter that it cannot count any more, and does not stop the others", async () => {
  const broken = await create();
  const id = await create();
  await core.db.execute(sql`update watch set filter = 'stat:stale' where id = ${broken}`);
  await beat(8);
  await tick();
  const fault = expect.stringContaining("There is no stat:");
  expect(await show(broken)).toMatchObject({ count: null, fault });
  expect(typesOf(id)).toEqual(["firing"]);
});

it("evaluates a watch behind one whose evaluation fails", async () => {
  const [broken = "", id = ""] = [await create(), await create()].toSorted();
  await core.db.execute(
    sql.raw(`alter table watch add constraint broken check (id <> '${broken}') not valid`),
  );
  await beat(8);
  await clock.advance(10_000);
  await expect(evaluateWatches(core)).rejects.toThrow();
  await core.db.execute(sql`alter table watch drop constraint broken`);
  expect(await show(id)).toMatchObject({ state: "firing" });
});
