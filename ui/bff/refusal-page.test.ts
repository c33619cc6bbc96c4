import { describe, expect, it } from "vitest";
import { useTestWeb } from "#tests/support/web.ts";

const web = await useTestWeb();
const cookie = (await web.sessionOf("admin")).header;
const request = (path: string, init: RequestInit = {}, app = web.app) =>
  app.fetch(new Request(new URL(path, web.origin), init), {});

describe("V5: a refused navigation", () => {
  const asBrowser = {
    "Sec-Fetch-Mode": "navigate",
    "Sec-Fetch-Dest": "document",
    Accept: "text/html",
  };
  const signedIn = { headers: { ...asBrowser, Cookie: cookie } };
  const answers = (status: number, code: string) => {
    const problem = { title: "A scope is missing", detail: "Core says no", code, action: "stop" };
    const headers = { "Content-Type": "application/problem+json" };
    return web.appWith({ fetch: async () => Response.json(problem, { status, headers }) });
  };
  const refusals: [
    code: string,
    status: number,
    path: string,
    init?: RequestInit,
    app?: typeof web.app,
  ][] = [
    [
      "cross_origin_refused",
      403,
      "/api/session",
      { headers: { ...asBrowser, "Sec-Fetch-Site": "cross-site" } },
    ],
    ["cross_origin_refused", 403, "/device", { method: "POST", headers: asBrowser }],
    ["unauthenticated", 401, "/api/session"],
    [
      "unauthenticated",
      401,
      "/device",
      {
        method: "POST",
        headers: {
          ...asBrowser,
          Origin: web.origin,
          "Content-Type": "application/x-www-form-urlencoded",
        },
      },
    ],
    ["not_found", 404, "/api/nowhere"],
    ["not_found", 404, "/assets/none.js"],
    ["method_not_allowed", 405, "/oauth/token"],
    ["uri_too_long", 414, `/v1/whoami?${"x".repeat(9000)}`],
    ["core_unavailable", 503, "/device", signedIn, answers(500, "internal")],
    ["database_unavailable", 503, "/device", signedIn, answers(503, "database_unavailable")],
    ["forbidden", 403, "/api/core/audit-events/export.csv", signedIn, answers(403, "forbidden")],
  ];

  it.each(refusals)(
    "with %s (%i) is a page that can be read and left",
    async (code, status, path, init = { headers: asBrowser }, app = web.app) => {
      const answer = await request(path, init, app);
      const { headers } = answer;
      const text = await answer.text();
      expect(answer.status).toBe(status);
      expect(headers.get("content-type")).toBe("text/html; charset=UTF-8");
      expect(headers.get("content-security-policy")).toContain("frame-ancestors 'none'");
      expect(text).toMatch(/<h1>[A-Z][^<]{5,}<\/h1>/);
      expect(text).toMatch(/<a class="button button-primary login-button" href="\/[^"/]*">/);
      expect(text).not.toContain(code);
      expect(text).not.toMatch(/undefined|\[object/);
    },
  );

  it("keeps Retry-After and the cookies, and is JSON for a script or a program", async () => {
    const unavailable = answers(503, "database_unavailable");
    const page = await request("/device?user_code=a", signedIn, unavailable);
    expect(page.headers.get("retry-after")).toBe("5");
    expect(await page.text()).toContain('href="/device?user_code=a">Try again</a>');
    for (const headers of [
      { Accept: "*/*" },
      { "Sec-Fetch-Mode": "cors", Accept: "text/html" },
      { Accept: "text/html", Authorization: "Bearer x" },
    ])
      expect((await request("/api/nowhere", { headers })).headers.get("content-type")).toBe(
        "application/problem+json",
      );
  });
});
