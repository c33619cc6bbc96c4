import { sql } from "drizzle-orm";
import { describe, expect, it } from "vitest";
import { figuresOf } from "#functions/ops/figures.ts";
import {
  type InventoryChange,
  type InventoryReport,
  inventoryBytesMax,
  inventoryHostsMax,
} from "#proto/inventory/inventory.ts";
import { createTestToken, identityPrefix } from "#tests/support/collector.ts";
import { useTestCore } from "#tests/support/core.ts";
import { readCsv } from "#tests/support/csv.ts";
import { isSlow } from "#tests/support/is-slow.ts";

const test = await useTestCore();
const { auditor, api, clock, db, core } = test;
const path = "/v1/collector/inventory";
const { enroll } = await createTestToken(test);
for (const deviceId of ["a", "b", "c", "d"]) await enroll(deviceId);
/** All but `d` have sent telemetry just now. */
await db.execute(sql`update fleet_status set last_envelope_at = ${clock.iso()}::timestamptz
  where identity <> ${`${identityPrefix}d`}`);

const putJson = (hosts: unknown, query = "", headers: Record<string, string> = {}) =>
  api<InventoryChange>("PUT", `${path}${query}`, { as: "admin", body: { hosts }, headers });
const putCsv = (content: string, query = "", headers: Record<string, string> = {}) =>
  api("PUT", `${path}${query}`, {
    as: "admin",
    raw: { type: "text/csv", content },
    headers,
  });
const list = (query = "") => auditor.read<InventoryReport>(`${path}${query}`);
const fleetOf = async (status: string) =>
  (await test.health(`inventory=${status}`)).items.map(({ device_id }) => device_id);
const statuses = async () => (await list()).items.map(({ name, status }) => `${name} ${status}`);
const audited = () => test.events("action=inventory.put");
const samples = async () => {
  const figures = figuresOf(core, { checks: {}, credentials: () => [] });
  return (await figures.find(({ name }) => name === "core_inventory_hosts")?.read())?.map(
    ({ labels, value }) => [labels.status, value],
  );
};

it("without an inventory nothing is expected, unexpected or gone: not in the list, the fleet, its exports and the metric", async () => {
  const nothing = { etag: null, updated_at: null, counts: null, items: [], next_cursor: null };
  expect(await list()).toMatchObject(nothing);
  for (const status of ["expected", "unexpected", "gone"])
    expect(await fleetOf(status)).toEqual([]);
  const { items } = await test.health();
  expect(items.some((row) => "inventory" in row)).toBe(false);
  expect(await samples()).toEqual([]);
});

describe("an inventory", () => {
  it("is put as CSV, as a whole, and audited with counts", { tags: "workerd" }, async () => {
    const { status, body, headers } = await putCsv(
      `\ufeffname, owner,label.env,label.team\r\n a, shop ,prod ,\r\n${identityPrefix}b,"Pay, ""EU""",,x\r\nghost,,,\r\n`,
    );
    expect(status).toBe(200);
    const counted = { hosts: 3, added: 3, changed: 0, removed: 0 };
    expect(body).toEqual({
      etag: headers.get("etag"),
      updated_at: clock.iso(),
      ...counted,
      changes: ["a", "ghost", `${identityPrefix}b`].map((name) => ({ name, change: "added" })),
    });
    expect((await audited()).map(({ details }) => details)).toEqual([counted]);
    const { items, counts } = await list();
    expect(counts).toEqual({ expected: 2, missing: 1, unexpected: 2, gone: 0 });
    expect(items.map(({ name, status: of, owner, labels }) => [name, of, owner, labels])).toEqual([
      ["a", "expected", "shop", { env: "prod" }],
      ["c", "unexpected", null, {}],
      ["d", "unexpected", null, {}],
      ["ghost", "missing", null, {}],
      [`${identityPrefix}b`, "expected", 'Pay, "EU"', { team: "x" }],
    ]);
    const worst = await list("?sort=severity&limit=2");
    const others = await list(`?sort=severity&cursor=${worst.next_cursor}`);
    expect([...worst.items, ...others.items].map(({ name }) => name)).toEqual([
      "ghost",
      "c",
      "d",
      "a",
      `${identityPrefix}b`,
    ]);
    expect(items[4]).toMatchObject({
      identity: `${identityPrefix}b`,
      identity_id: expect.any(String),
    });
  });

  it("is the same in JSON and in another order: changes nothing, and is not audited again", async () => {
    const { etag, updated_at } = await list();
    await clock.advance(1000);
    const { body } = await putJson([
      { name: "ghost" },
      { name: `${identityPrefix}b`, owner: 'Pay, "EU"', labels: { team: "x" } },
      { name: "a", labels: { env: "prod" }, owner: "shop" },
    ]);
    expect(body).toMatchObject({ etag, updated_at, added: 0, changed: 0, removed: 0, changes: [] });
    expect(await audited()).toHaveLength(1);
  });

  it("only compares in a dry run", async () => {
    const { body } = await putJson([{ name: "a", owner: "pay" }, { name: "new" }], "?dry_run=true");
    expect(body.changes).toEqual([
      { name: "a", change: "changed" },
      { name: "ghost", change: "removed" },
      { name: `${identityPrefix}b`, change: "removed" },
      { name: "new", change: "added" },
    ]);
    expect((await list()).etag).not.toBe(body.etag);
    expect(await audited()).toHaveLength(1);
  });

  it("that no longer has a host reports it as gone while it sends, and as nothing once it is silent or revoked", async () => {
    await putJson([{ name: "c" }, { name: "d" }]);
    expect(await statuses()).toEqual([
      "a gone",
      "c expected",
      "d expected",
      `${identityPrefix}b gone`,
    ]);
    await putJson([{ name: "c" }]);
    expect(await statuses()).toEqual(["a gone", "c expected", `${identityPrefix}b gone`]);
    expect((await list("?status=gone&limit=1")).items.map(({ name }) => name)).toEqual(["a"]);
    expect((await list(`?status=gone&q=${identityPrefix.toUpperCase()}`)).items).toMatchObject([
      { name: `${identityPrefix}b` },
    ]);
    expect((await list("?q=%25")).items).toEqual([]);
    expect(await fleetOf("gone")).toEqual(["a", "b"]);
    expect(await fleetOf("expected")).toEqual(["c"]);
    expect(await samples()).toEqual([
      ["missing", 0],
      ["unexpected", 0],
      ["gone", 2],
      ["expected", 1],
    ]);
    await db.execute(
      sql`update fleet_status set revoked_from = '-infinity' where identity = ${`${identityPrefix}a`}`,
    );
    expect(await fleetOf("gone")).toEqual(["b"]);
    await clock.advance(3_600_000);
    expect(await fleetOf("gone")).toEqual([]);
  });

  it("marks rows of the fleet, and has columns in its exports", async () => {
    await putCsv("name,owner\nc,shop\nd,pay\n");
    const { items } = await test.health();
    expect(items.map(({ device_id, inventory }) => [device_id, inventory])).toEqual([
      ["a", undefined],
      ["b", undefined],
      ["c", { status: "expected", owner: "shop" }],
      ["d", { status: "expected", owner: "pay" }],
    ]);
    const csv = await auditor.read<string>("/v1/collector/health/export.csv?kind=stale");
    const row = readCsv(csv).find(({ device_id }) => device_id === "d");
    expect(row).toMatchObject({ inventory: "expected", owner: "pay" });
  });

  it("has pages that follow each other, of any status", async () => {
    await putJson(["a", "b", "y", "z"].map((name) => ({ name })));
    const names: string[] = [];
    for (let query = "?limit=1"; ; ) {
      const { items, next_cursor: next } = await list(query);
      names.push(...items.map(({ name }) => name));
      if (next === null) break;
      query = `?limit=1&cursor=${next}`;
    }
    expect(names).toEqual(["a", "b", "y", "z"]);
    const { next_cursor } = await list("?limit=1&status=missing");
    const other = await auditor.get(`${path}?limit=1&cursor=${next_cursor}`);
    expect(other).toMatchObject({ body: { code: "validation_failed" } });
  });
});

it("If-Match refuses an inventory that has changed, and lets one of two programs at once change it", async () => {
  const { etag } = await list();
  const headers = { "If-Match": etag ?? "" };
  const both = await Promise.all(["one", "two"].map((name) => putJson([{ name }], "", headers)));
  expect(both.map(({ status }) => status).sort()).toEqual([200, 412]);
  const now = (await list()).etag;
  expect(both.find(({ status }) => status === 412)?.body).toMatchObject({
    code: "inventory_changed",
    etag: now,
  });
  for (const match of [`"x", ${now}`, "*"])
    expect((await putJson([{ name: match }], "", { "If-Match": match })).status).toBe(200);
});

describe("an inventory is refused", () => {
  it.each([
    ["without columns", "", { line: 1, message: "must name the columns" }],
    ["without names", "owner\nx\n", { line: 1, message: "must have the column name" }],
    [
      "with another column",
      "name,rack\n",
      { line: 1, column: 2, message: "must be name, owner or label.KEY" },
    ],
    ["with a column twice", "name,name\n", { line: 1, column: 2, message: "is there twice" }],
    ["with a cell too many", "name\na\nb,c\n", { line: 3, message: "has 2 cells under 1 columns" }],
    [
      "with an empty name",
      "name,owner\na,\n,x\n",
      { path: "name", line: 3, message: "must not be empty" },
    ],
    [
      "with a name twice",
      "name\na\n\nb\na\n",
      { path: "name", line: 5, message: "is the name of line 2 too" },
    ],
    ["with an open quote", 'name\na\n"b\n', { line: 3, message: "a quoted cell does not end" }],
    [
      "with a label that is none",
      "name,label.env\na,the prod\n",
      { path: "labels.env", line: 2, message: expect.stringContaining("must be 1 to 63 letters") },
    ],
  ])("as CSV %s, with the line", async (_, content, error) => {
    const before = await list();
    const errors = [{ path: "", ...error }];
    const { body } = await putCsv(content);
    expect(body).toMatchObject({ code: "inventory_invalid", errors });
    expect((await list()).etag).toBe(before.etag);
  });

  it("as JSON with a name twice, or what is no host, with its place", async () => {
    expect((await putJson([{ name: "a" }, { name: "b" }, { name: "a" }])).body).toMatchObject({
      code: "inventory_invalid",
      errors: [{ path: "hosts.2.name", message: "is the name of hosts.0 too" }],
    });
    const { body } = await putJson([{ name: "a" }, { name: "" }, { name: "c", rack: 4 }]);
    expect(body).toMatchObject({
      code: "validation_failed",
      errors: [{ path: "hosts.1.name" }, { path: "hosts.2.rack" }],
    });
  });

  it("without a host unless that is meant", async () => {
    for (const put of [() => putCsv("name,owner\n"), () => putJson([])])
      expect(await put()).toMatchObject({ body: { code: "inventory_empty" } });
    expect((await putCsv("name\n", "?allow_empty=true")).body).toMatchObject({ hosts: 0 });
    expect((await list()).counts).toEqual({ expected: 0, missing: 0, unexpected: 0, gone: 0 });
  });

  it("above its bounds, and of another type", async () => {
    const many = Array.from({ length: inventoryHostsMax + 1 }, (_, index) => `h${index}`);
    expect((await putCsv(`name\n${many.join("\n")}`)).body).toMatchObject({
      code: "inventory_invalid",
      errors: [{ line: inventoryHostsMax + 2 }],
    });
    expect((await putCsv("x".repeat(inventoryBytesMax + 1))).status).toBe(413);
    const raw = { type: "text/xml", content: "<a/>" };
    expect((await api("PUT", path, { as: "admin", raw })).status).toBe(415);
  });
});

it("takes as many hosts as a fleet has, and the same again", async () => {
  const hosts = isSlow ? 100_000 : 10_000;
  const lines = Array.from(
    { length: hosts },
    (_, index) => `host-${index}.example.com,team-${index % 40},prod`,
  );
  const content = `name,owner,label.env\n${lines.join("\n")}\n`;
  const { body } = await putCsv(content);
  expect(body).toMatchObject({ hosts, added: hosts });
  expect(body.changes).toHaveLength(1000);
  expect((await putCsv(content)).body).toMatchObject({ added: 0, changed: 0, removed: 0 });
  expect((await list("?status=missing&limit=1")).counts).toMatchObject({ missing: hosts });
});
