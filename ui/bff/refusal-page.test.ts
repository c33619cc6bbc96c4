import { afterAll, describe, expect, it } from "vitest";
import { startTestWeb } from "#tests/support/web.ts";
import { createWebApp } from "./app.ts";

const web = await startTestWeb();
afterAll(() => web.close());
const remoteAddressOf = () => "192.0.2.7";
const cookie = (await web.sessionOf("admin")).header;
const request = (path: string, init: RequestInit = {}, app = web.app) =>
  app.fetch(new Request(new URL(path, web.origin), init), {});

describe("V5: a refused navigation", () => {
  const asBrowser = {
    "Sec-Fetch-Mode": "navigate",
    "Sec-Fetch-Dest": "document",
    Accept: "text/html",
  };
  const answers = (status: number, code: string) =>
    createWebApp(
      {
        ...web.web,
        fetch: async () =>
          Response.json(
            {
              title: "A scope is missing",
              detail: "Core says no",
              code,
              action: "stop",
              request_id: "r",
            },
            {
              status,
              headers: { "Content-Type": "application/problem+json" },
            },
          ),
      },
      { remoteAddressOf },
    );
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
    ["unauthenticated", 401, "/api/session", { headers: asBrowser }],
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
    ["not_found", 404, "/api/nowhere", { headers: asBrowser }],
    ["not_found", 404, "/assets/none.js", { headers: asBrowser }],
    ["method_not_allowed", 405, "/oauth/token", { headers: asBrowser }],
    ["uri_too_long", 414, `/v1/whoami?${"x".repeat(9000)}`, { headers: asBrowser }],
    [
      "core_unavailable",
      503,
      "/device",
      { headers: { ...asBrowser, Cookie: cookie } },
      answers(500, "internal"),
    ],
    [
      "database_unavailable",
      503,
      "/device",
      { headers: { ...asBrowser, Cookie: cookie } },
      answers(503, "database_unavailable"),
    ],
    [
      "forbidden",
      403,
      "/api/core/audit-events/export.csv",
      { headers: { ...asBrowser, Cookie: cookie } },
      answers(403, "forbidden"),
    ],
  ];

  it.each(refusals)(
    "with %s (%i) is a page that can be read and left",
    async (code, status, path, init, app) => {
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
    const page = await request(
      "/device?user_code=a",
      { headers: { ...asBrowser, Cookie: cookie } },
      unavailable,
    );
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
