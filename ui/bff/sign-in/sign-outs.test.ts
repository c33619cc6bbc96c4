import { expect, it } from "vitest";
import { useTestWeb } from "#tests/support/web.ts";

/* Two webs beside each other share a core, and nothing else. */

const web = await useTestWeb();
let isCoreAway = false;
const appOf = () =>
  web.appWith({
    fetch: (...call) => (isCoreAway ? Promise.reject(new Error("away")) : web.web.fetch(...call)),
  });
const first = appOf();
const second = appOf();
const { origin } = web;

const get = async (app: typeof first, path: string, cookie: string) =>
  (await app.request(`${origin}${path}`, { headers: { Cookie: cookie } })).status;
const signOut = async (app: typeof first, cookie: string) => {
  const headers = { Origin: origin, "Content-Type": "application/json", Cookie: cookie };
  return (await app.request(`${origin}/api/auth/logout`, { method: "POST", headers, body: "{}" }))
    .status;
};

it("a session that signed out at one web is rejected by another", async () => {
  const { header: ended } = await web.sessionOf("auditor");
  const { header: other } = await web.sessionOf("auditor");
  expect(await get(second, "/api/session", ended)).toBe(200);
  expect(await signOut(first, ended)).toBe(204);
  for (const path of ["/api/session", "/api/core/collector/health", "/api/core/audit-events"])
    expect([path, await get(appOf(), path, ended)]).toEqual([path, 401]);
  expect(await get(appOf(), "/device", ended)).toBe(302);
  expect(await get(second, "/api/session", other)).toBe(200);
});

it("a sign-out that core could not confirm reaches it when core is back", async () => {
  const { header: ended } = await web.sessionOf("auditor");
  isCoreAway = true;
  expect(await signOut(first, ended)).toBe(204);
  expect(await get(first, "/api/session", ended)).toBe(401);
  isCoreAway = false;
  expect(await get(second, "/api/session", ended)).toBe(200);
  await expect
    .poll(async () => {
      await web.clock.advance(2_000);
      return get(second, "/api/session", ended);
    })
    .toBe(401);
});
