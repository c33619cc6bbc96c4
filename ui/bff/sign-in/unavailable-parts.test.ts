import { expect, it } from "vitest";
import { people } from "#scripts/lab/people.ts";
import { createUserAgent } from "#scripts/lab/user-agent.ts";
import { walkSignIn } from "#scripts/lab/walk-sign-in.ts";
import { useTestWeb } from "#tests/support/web.ts";
import type { Web } from "../web.ts";

const web = await useTestWeb();

/** Signs in at a web of which one part fails; returns the page where that ends. */
const signInWith = (broken: Partial<Web>) => {
  const app = web.appWith(broken);
  const agent = createUserAgent(async (url, init) =>
    url.startsWith(web.origin) ? app.fetch(new Request(url, init), {}) : fetch(url, init),
  );
  const account = people.reader.subject;
  return walkSignIn(agent, { origin: web.origin, account, returnTo: "/fleet" });
};
const toCore =
  (answer: () => Promise<Response>): Web["fetch"] =>
  (url, init) =>
    url.startsWith(web.web.config.apiUrl) ? answer() : fetch(url, init);
const databaseDown = { code: "database_unavailable", detail: "The database cannot be reached" };
const brokenDatabase = {
  select: () => {
    throw Object.assign(new Error("connect ECONNREFUSED"), { code: "ECONNREFUSED" });
  },
} as unknown as Web["db"];

it.each<[string, string, () => Partial<Web>, string]>([
  [
    "an identity provider",
    "identity_provider",
    () => ({
      config: {
        ...web.web.config,
        identityProvider: { ...web.web.config.identityProvider, issuer: "http://127.0.0.1:9" },
      },
    }),
    "The identity provider, Example ID, gives no usable answer.",
  ],
  [
    "core",
    "core",
    () => ({ fetch: toCore(() => Promise.reject(new TypeError("fetch failed"))) }),
    "Core does not answer.",
  ],
  [
    "core's database",
    "database",
    () => ({ fetch: toCore(async () => Response.json(databaseDown, { status: 503 })) }),
    "Core answers, and reports that its database is unavailable.",
  ],
  [
    "web's own database",
    "web_database",
    () => ({ db: brokenDatabase }),
    "The web server gets no answer from its own database.",
  ],
])("names %s", async (_name, part, broken, words) => {
  const { url, text } = await signInWith(broken());
  expect(Object.fromEntries(url.searchParams)).toMatchObject({
    reason: "sign_in_unavailable",
    part,
    return_to: "/fleet",
  });
  expect(text).toContain(words);
});

it("W6: names both clocks when web's is 100 s ahead of core's", async () => {
  const { clock } = web;
  const ahead = { ...clock, now: () => clock.now() + 100_000 };
  const times = [ahead, clock].map((one) => new Date(one.now()).toISOString());
  const { url, status, text } = await signInWith({ clock: ahead });
  expect([url.pathname, status]).toEqual(["/api/auth/callback/idp", 503]);
  expect(text).toContain("The clocks of web and core differ");
  expect(text).toContain(
    `Web&#39;s clock says ${times[0]} and core&#39;s ${times[1]}: set the wrong one.`,
  );
  const fields = expect.objectContaining({ code: "clock_skew", status: 503 });
  expect(web.log.lines).toContainEqual(expect.objectContaining({ level: "error", fields }));
});

it("offers the way back to a browser that still has a session, and to no other", async () => {
  const url = `${web.origin}/login?reason=sign_in_unavailable&return_to=%2Ffleet%3Fq%3Dx`;
  const page = async (Cookie: string) =>
    (await web.app.request(url, { headers: { Cookie } })).text();
  const { header } = await web.sessionOf("reader");
  expect(await page(header)).toContain('href="/fleet?q=x">Return with your present session</a>');
  expect(await page("")).not.toContain("present session");
});
