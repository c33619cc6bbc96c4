import * as v from "valibot";
import { expect, it } from "vitest";
import { useTestCore } from "#tests/support/core.ts";
import { reasonBody, resource } from "./resource.ts";

const Thing = v.strictObject({ id: v.string() });
const id = "01920000-0000-7000-8000-0000000000c1";

const test = await useTestCore({
  routes: (core) => {
    const things = resource(core, "/v1/things", ({ list, get, remove, act }) => ({
      listThings: list("", "The things", {
        returns: ["A page of things", v.unknown()],
        find: async ({ after, limit }) => ({
          rows: [{ id: after ?? "first" }],
          next: `${limit}`,
        }),
        view: (row, { userId }) => ({ ...row, seenBy: userId.length }),
        furtherMembers: async (rows) => ({ count: rows.length }),
      }),
      getThing: get("/:id", "A thing", {
        returns: ["The thing", Thing],
        handle: async ({ params }) => params,
      }),
      deleteThing: remove("/:id", "Delete a thing", {
        returns: ["Deleted"],
        handle: async () => "of no use",
      }),
      closeThing: act("/:id/close", "Close a thing", {
        ...reasonBody("done"),
        by: "audit",
        status: 202,
        returns: ["The thing", Thing],
        problems: ["conflict"],
        handle: async ({ params }) => params,
      }),
      hiddenThing: get("/hidden", "Not mounted", {
        returns: ["Nothing", Thing],
        handle: async () => ({ id }),
      }),
    }));
    return [things.listThings, things.getThing, things.deleteThing, things.closeThing];
  },
});

it("names each route by its operationId, and mounts it alone", async () => {
  expect(test.routes.map(({ operationId, method, path }) => [operationId, method, path])).toEqual([
    ["listThings", "GET", "/v1/things"],
    ["getThing", "GET", "/v1/things/:id"],
    ["deleteThing", "DELETE", "/v1/things/:id"],
    ["closeThing", "POST", "/v1/things/:id/close"],
  ]);
  expect((await test.auditor.get("/v1/things/hidden")).status).toBe(422);
});

it("documents not_found for a path with an id, before the problems of the route", () => {
  expect(test.routes.map(({ problems }) => problems)).toEqual([
    [],
    ["not_found"],
    ["not_found"],
    ["not_found", "conflict"],
  ]);
});

it("admits the readers to reads, the writers to changes, and to one route those that it names", async () => {
  const status = async (
    method: "GET" | "DELETE" | "POST",
    path: string,
    as: "auditor" | "admin" | "reader",
  ) => (await test.api(method, `/v1/things/${path}`, { as })).status;
  expect(await status("GET", id, "reader")).toBe(403);
  expect(await status("GET", id, "auditor")).toBe(200);
  expect(await status("DELETE", id, "auditor")).toBe(403);
  expect(await status("DELETE", id, "admin")).toBe(204);
  expect(await status("POST", `${id}/close`, "auditor")).toBe(202);
});

it("returns a page with a cursor of the list, and further members", async () => {
  const first = await test.auditor.get("/v1/things?limit=7");
  expect(first.body).toMatchObject({ items: [{ id: "first", seenBy: 36 }], count: 1 });
  const second = await test.auditor.get(`/v1/things?cursor=${first.body.next_cursor}`);
  expect(second.body.items).toMatchObject([{ id: "7" }]);
  expect((await test.auditor.get("/v1/things?cursor=e30")).status).toBe(422);
});
