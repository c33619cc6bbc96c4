import { eq } from "drizzle-orm";
import { expect, it } from "vitest";
import { watch } from "#drizzle/schema/watch.ts";
import { watchesMax } from "#proto/watch/watch.ts";
import { useTestCore } from "#tests/support/core.ts";

const test = await useTestCore({
  env: {
    SVC_WATCH_RECEIVERS: `web_url: https://fleet.test
receivers:
  - {kind: webhook, name: hook, url: 'https://hook.test', secret: 'whsec_${btoa("a secret of 24 bytes at least")}'}`,
  },
});
const { admin, auditor, clock } = test;
const path = "/v1/collector/watches";
const nobody = "01920000-0000-7000-8000-0000000000ff";

type WatchPage = { items: { id: string }[]; next_cursor: string | null };
const idsOf = async (of: string) => (await auditor.read<WatchPage>(of)).items.map(({ id }) => id);

let names = 0;
const create = (fields: object = {}) =>
  admin.post(path, {
    name: `watch ${++names}`,
    filter: "state:stale",
    ...fields,
  });
const change = (id: unknown, body: object) => admin.put(`${path}/${id}`, body);
const act = (id: unknown, action: string, body?: object) =>
  admin.post(`${path}/${id}/${action}`, body);

it("creates a watch with the documented defaults, audited", async () => {
  const { status, body } = await create({ name: "defaults" });
  expect(status).toBe(201);
  expect(body).toEqual({
    id: expect.stringMatching(/^[0-9a-f-]{36}$/),
    name: "defaults",
    filter: "state:stale",
    more_than: 0,
    for_seconds: 300,
    receivers: [],
    revision: 1,
    state: "inactive",
    since: null,
    count: null,
    fault: null,
    evaluated_at: null,
    changed_at: clock.iso(),
    common_factor: null,
    explained_by: null,
    silence: null,
    waiting_messages: 0,
    created_by_name: expect.stringContaining("@"),
    created_at: clock.iso(),
  });
  const created = { action: "watch.create", outcome: "success" };
  expect(await test.events(`target=${body.id}`)).toMatchObject([created]);
});

it.each([
  ["a filter with a fault", { filter: "stat:stale" }, "filter"],
  ["a receiver that core does not have", { receivers: ["hook", "smtp"] }, "receivers.1"],
  ["a receiver twice", { receivers: ["hook", "hook"] }, "receivers"],
  ["a negative threshold", { more_than: -1 }, "more_than"],
  ["a time above a week", { for_seconds: 604_801 }, "for_seconds"],
  ["no name", { name: "" }, "name"],
  ["a field that is not known", { email: "a@b" }, "email"],
])("refuses %s", async (_, fields, where) => {
  const { body } = await create(fields);
  expect(body).toMatchObject({ code: "validation_failed", errors: [{ path: where }] });
});

it("refuses a name that is taken, also in a change", async () => {
  const { name } = (await create()).body;
  const other = (await create()).body;
  expect((await create({ name })).body.code).toBe("watch_name_taken");
  const changed = await change(other.id, { name, filter: "", revision: 1 });
  expect(changed.body.code).toBe("watch_name_taken");
});

it("changes a watch at the revision that was read, and at no other", {
  tags: "workerd",
}, async () => {
  const { id, name } = (await create()).body;
  const body = {
    name,
    filter: "state:stale",
    more_than: 20,
    for_seconds: 600,
    receivers: ["hook"],
    revision: 1,
  };
  expect((await change(id, body)).body).toMatchObject({ more_than: 20, revision: 2 });
  expect((await change(id, body)).body.code).toBe("conflict");
  expect((await change(nobody, body)).status).toBe(404);
});

it("silences a watch for a time, and not for ever", { tags: "workerd" }, async () => {
  const { id } = (await create()).body;
  const silence = (body: object, of: unknown = id) => act(of, "silence", body);
  const until = clock.iso(3_600_000);
  const silenced = await silence({ seconds: 3600, reason: "disks" });
  expect(silenced.body).toMatchObject({ silence: { until, reason: "disks" } });
  for (const body of [{}, { seconds: 2_592_001 }, { seconds: -1 }, { seconds: 60, until: "never" }])
    expect((await silence(body)).status).toBe(422);
  expect((await silence({ seconds: 60 }, nobody)).status).toBe(404);
  await clock.advance(3_600_000);
  expect(await auditor.read(`${path}/${id}`)).toMatchObject({
    silence: null,
    history: [
      { kind: "silenced", detail: expect.stringMatching(`until ${until}, by .*@.*, disks`) },
    ],
  });
});

it("sends a test to receivers, and to none where there is none", {
  tags: "workerd",
}, async () => {
  const { id } = (await create({ receivers: ["hook"] })).body;
  const lacks = (await create()).body;
  expect(await act(id, "test")).toMatchObject({ status: 202, body: { receivers: ["hook"] } });
  expect(await auditor.read(`${path}/${id}`)).toMatchObject({ waiting_messages: 1 });
  expect((await act(lacks.id, "test")).body.code).toBe("watch_without_receivers");
  expect((await act(nobody, "test")).status).toBe(404);
});

it("lists the watches by state and page by page, with the receivers, and no address or secret", {
  tags: "workerd",
}, async () => {
  const body = await auditor.read(`${path}?limit=2`);
  expect(body).toMatchObject({
    items: [{}, {}],
    next_cursor: expect.any(String),
    receivers: [{ name: "hook", kind: "webhook" }],
  });
  const next = await auditor.read(`${path}?limit=2&cursor=${body.next_cursor}`);
  expect(next.items).not.toEqual(body.items);
  expect((await auditor.read(`${path}?state=firing`)).items).toEqual([]);
  expect((await auditor.get(`${path}?state=broken`)).status).toBe(422);
  expect(JSON.stringify(body)).not.toMatch(/hook\.test|whsec/);
});

it("lists by severity those that fire first, then the pending ones, on all pages", async () => {
  const newestFirst = await idsOf(path);
  const [pending, firing] = newestFirst.slice(-2);
  const mark = (id: unknown, fields: object) =>
    test.db
      .update(watch)
      .set(fields)
      .where(eq(watch.id, String(id)));
  await mark(firing, { isFiring: true });
  await mark(pending, { contrarySince: new Date(clock.now()) });
  const expected = [firing, pending, ...newestFirst.slice(0, -2)];
  expect(await idsOf(`${path}?sort=severity`)).toEqual(expected);
  const found: unknown[] = [];
  for (let cursor: string | null = ""; cursor !== null; ) {
    const page: WatchPage = await auditor.read(
      `${path}?sort=severity&limit=2${cursor && `&cursor=${cursor}`}`,
    );
    found.push(...page.items.map(({ id }) => id));
    cursor = page.next_cursor;
  }
  expect(found).toEqual(expected);
  await mark(firing, { isFiring: false });
  await mark(pending, { contrarySince: null });
});

it("deletes a watch", { tags: "workerd" }, async () => {
  const { id } = (await create()).body;
  const remove = () => admin.delete(`${path}/${id}`);
  expect([(await remove()).status, (await remove()).status]).toEqual([204, 404]);
});

it("keeps a bounded number of them", async () => {
  const [row] = await test.db.select().from(watch).limit(1);
  if (row === undefined) throw new Error("there is no watch to copy");
  const copies = Array.from({ length: watchesMax }, (_, n) => ({
    ...row,
    id: crypto.randomUUID(),
    name: `copy ${n}`,
  }));
  await test.db.insert(watch).values(copies);
  expect(await create()).toMatchObject({ body: { code: "too_many_watches" } });
});
