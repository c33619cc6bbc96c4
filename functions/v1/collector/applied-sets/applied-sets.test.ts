import { expect, it } from "vitest";
import { appliedSetBytesMax, applyLeaseMs } from "#proto/applied-set/applied-set.ts";
import { useTestCore } from "#tests/support/core.ts";

const test = await useTestCore();

const content = {
  complete: true,
  policies: [{ name: "web servers", made: true }],
  watches: [
    {
      name: "stale",
      filter: "state:stale",
      more_than: 5,
      for_seconds: 600,
      receivers: [],
      id: null,
      made: true,
    },
  ],
  inventory: { etag: `"${"a".repeat(64)}"`, made: false },
  assignments: [
    {
      config_hash: "b".repeat(64),
      made: true,
      identity_ids: ["01920000-0000-7000-8000-0000000000e1"],
    },
  ],
};
const path = (name: string) => `/v1/collector/applied-sets/${name}`;
const put = (name: string, body: object) => test.admin.put(path(name), body);
const get = (name: string) => test.auditor.get(path(name));

it("keeps a set at the revision that was read, and at no other, audited", {
  tags: "workerd",
}, async () => {
  expect((await get("web")).status).toBe(404);
  const conflict = { code: "conflict", revision: 0 };
  expect((await put("web", { revision: 1, content })).body).toMatchObject(conflict);
  const both = await Promise.all([0, 0].map((revision) => put("web", { revision, content })));
  expect(both.map(({ status }) => status).toSorted()).toEqual([200, 409]);
  expect((await get("web")).body.revision).toBe(1);
  const changed = await put("web", { revision: 1, content: { ...content, complete: false } });
  expect(changed).toMatchObject({ status: 200, body: { name: "web", revision: 2 } });
  // An apply runs: another one reads the revision that it replaced.
  expect((await get("web")).body).toEqual({ ...changed.body, revision: 1 });
  expect((await put("web", { revision: 1, content })).body).toMatchObject({
    code: "apply_in_progress",
    action: "retry",
    detail: expect.stringContaining("is applying this set: plan again"),
  });
  await test.clock.advance(applyLeaseMs);
  expect((await get("web")).body).toEqual(changed.body);
  const late = await put("web", { revision: 1, content });
  expect(late.body).toMatchObject({ ...conflict, revision: 2 });
  expect((await test.events("action=applied_set.put")).toReversed()).toMatchObject([
    { details: { revision: 1, hosts: 1 } },
    { details: { revision: 2, hosts: 1 } },
  ]);
});

it.each([
  ["a name with capitals", "Web", {}, "name"],
  ["a revision below 0", "one", { revision: -1 }, "revision"],
  ["what is no content", "one", { content: { ...content, policies: null } }, "content.policies"],
  ["a field that is not known", "one", { content: { ...content, note: "" } }, "content.note"],
])("refuses %s", async (_, name, changes, where) => {
  expect(await put(name, { revision: 0, content, ...changes })).toMatchObject({
    body: { code: "validation_failed", errors: [{ path: where }] },
  });
});

it("refuses a set above its bounds", async () => {
  const raw = { type: "application/json", content: " ".repeat(appliedSetBytesMax + 1) };
  expect(await test.api("PUT", path("web"), { as: "admin", raw })).toMatchObject({ status: 413 });
});
