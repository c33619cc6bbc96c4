import { expect, it } from "vitest";
import type { PersonName } from "#scripts/lab/people.ts";
import { useTestWeb } from "#tests/support/web.ts";

const web = await useTestWeb();

const page = async (
  path: string,
  { as = "admin", form }: { as?: PersonName | null; form?: Record<string, string> } = {},
) => {
  const headers: Record<string, string> = { Accept: "text/html", Origin: web.origin };
  if (as !== null) headers.Cookie = (await web.sessionOf(as)).header;
  const sent = form ? { method: "POST", body: new URLSearchParams(form) } : {};
  const response = await fetch(web.origin + path, { headers, redirect: "manual", ...sent });
  const { status } = response;
  return { status, location: response.headers.get("location"), text: await response.text() };
};
const namesOf = async () => {
  const path = "/v1/collector/watches";
  const { items } = await web.core.auditor.read<{ items: { name: string }[] }>(path);
  return items.map(({ name }) => name);
};
const fields = { name: "by a form", filter: "state:stale", more_than: "5", for: "10m" };

it("begin with the view that an admin comes from, as its query", async () => {
  const { status, text } = await page("/watches/new?state=stale&not_label=env%3Atest");
  expect(status).toBe(200);
  expect(text).toContain('value="state:stale -label.env:test"');
  expect(text).toContain("Core has no receiver");
  expect(text).not.toContain("<script>");
});

it("lead to the sign-in page and back without a session, and change nothing", async () => {
  expect((await page("/watches/new?state=stale", { as: null })).location).toBe(
    `/login?${new URLSearchParams({ return_to: "/watches/new?state=stale" })}`,
  );
  expect((await page("/watches/new", { as: null, form: fields })).status).toBe(401);
  expect(await namesOf()).toEqual([]);
});

it("are for admins, and for pages of this origin", async () => {
  for (const sent of [{}, { form: fields }])
    expect(await page("/watches/new", { as: "auditor", ...sent })).toMatchObject({
      status: 403,
      text: expect.stringContaining("This needs the scope admin"),
    });
  const headers = {
    Cookie: (await web.sessionOf("admin")).header,
    Origin: "https://evil.example",
  };
  const body = new URLSearchParams(fields);
  for (const path of ["/watches/new", "/watches/change"]) {
    const answer = await fetch(web.origin + path, { method: "POST", headers, body });
    expect(await answer.json()).toMatchObject({ status: 403, code: "cross_origin_refused" });
  }
  expect(await namesOf()).toEqual([]);
});

it.each([
  [{ for: "soon" }, "For: must be a whole number and s, m, h or d"],
  [{ more_than: "-1" }, "More than: must be a whole number"],
  [{ filter: "stat:stale" }, "Hosts: There is no stat:"],
  [{ name: "" }, "Name: must not be empty"],
  [{ "receiver.nobody": "on" }, "Send messages to: is no receiver"],
])("say what is wrong with %j, and escape what was typed", async (wrong, fault) => {
  const typed = { ...fields, name: '"><b>', ...wrong };
  const { status, text } = await page("/watches/new", { form: typed });
  expect([status, text]).toEqual([422, expect.stringContaining(fault)]);
  expect(text).not.toContain("<b>");
  expect(await namesOf()).toEqual([]);
});

it("make a watch, and delete it once that is confirmed", async () => {
  const { status, location } = await page("/watches/new", { form: fields });
  expect([status, location, await namesOf()]).toEqual([
    303,
    expect.stringMatching(/^\/watches\/[0-9a-f-]{36}$/),
    ["by a form"],
  ]);
  const path = `/watches/change?id=${location?.slice("/watches/".length)}`;
  expect((await page(path, { form: { action: "delete" } })).text).toContain(
    "Confirm that the watch is to be deleted",
  );
  expect(await page(path, { form: { action: "delete", sure: "on" } })).toMatchObject({
    location: "/watches",
  });
  expect(await page(path)).toMatchObject({
    status: 404,
    text: expect.stringContaining("There is no such watch"),
  });
  expect((await page("/watches/change?id=x")).status).toBe(404);
});
