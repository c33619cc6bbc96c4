import { readFileSync } from "node:fs";
import { afterAll, describe, expect, it } from "vitest";
import { people } from "#scripts/lab/people.ts";
import { cpuMillisecondsOf } from "#tests/support/cpu-time.ts";
import { startTestWeb } from "#tests/support/web.ts";
import { createWebApp } from "./app.ts";
import { proxiedRoutes } from "./proxy.ts";

const web = await startTestWeb();
afterAll(() => web.close());
const remoteAddressOf = () => "192.0.2.7";
/** The same app on https. */
const secureWeb = {
  ...web.web,
  config: { ...web.web.config, origin: "https://fleet.example", secure: true },
};
const secureApp = createWebApp(secureWeb, { remoteAddressOf });
const cookie = (await web.sessionOf("admin")).header;
const request = (
  path: string,
  init: RequestInit = {},
  { app = web.app, origin = web.origin } = {},
) => app.fetch(new Request(new URL(path, origin), init), {});
const post = (path: string, headers: Record<string, string>, body = "{}") =>
  request(path, { method: "POST", headers: { Cookie: cookie, ...headers }, body });

/** Every registered path, and some that are not. */
const paths = (app: typeof web.app): { method: string; path: string }[] => [
  ...app.routes
    .filter(({ method, path }) => method !== "ALL" && path !== "/*" && path !== "*")
    .map(({ method, path }) => ({
      method,
      path: path.replace(/:\w+\{.*?\}\}?/g, people.admin.userId),
    })),
  ...["/", "/fleet", "/api/nowhere", "/favicon.svg", "/assets/app-1a2b3c4d.js", "/nowhere.js"].map(
    (path) => ({
      method: "GET",
      path,
    }),
  ),
];

describe("A7: every response", () => {
  it("forbids inline script and style, frames, sniffing and other origins", async () => {
    const visited = paths(web.app);
    expect(visited.length).toBeGreaterThan(proxiedRoutes.length + 10);
    for (const { method, path } of visited)
      for (const headers of [{}, { Cookie: cookie, Accept: "text/html", Origin: web.origin }]) {
        const answer = await request(path, { method, headers });
        const got = Object.fromEntries(answer.headers);
        const policy = (got["content-security-policy"] ?? "").split("; ");
        expect({ path, policy }).toEqual({
          path,
          policy: expect.arrayContaining(["default-src 'none'"]),
        });
        expect(policy).toEqual(
          expect.arrayContaining([
            "frame-ancestors 'none'",
            "base-uri 'none'",
            "script-src 'self'",
          ]),
        );
        expect(policy.join(" ")).not.toMatch(/unsafe|\*|data:|https?:/);
        expect(got).toMatchObject({
          "x-content-type-options": "nosniff",
          "referrer-policy": "same-origin",
          "cross-origin-opener-policy": "same-origin",
          "cross-origin-resource-policy": "same-origin",
          "x-request-id": expect.stringMatching(/^[0-9a-f-]{36}$/),
        });
        expect(got).not.toHaveProperty("strict-transport-security");
        const isAsset = /^\/(assets|favicon)/.test(path);
        expect({ path, caching: got["cache-control"] }).toEqual({
          path,
          caching: isAsset ? expect.stringMatching(/^(no-cache|public, .*immutable)$/) : "no-store",
        });
      }
  });

  it("sends HSTS and only Secure cookies on https", async () => {
    for (const { method, path } of paths(secureApp)) {
      const answer = await request(
        path,
        { method, headers: { Origin: "https://fleet.example" } },
        { app: secureApp },
      );
      expect(answer.headers.get("strict-transport-security")).toBe("max-age=31536000");
      for (const set of answer.headers.getSetCookie())
        expect(set).toMatch(
          /^__(Host-svc_session|(Secure|Host)-svc_sign_in_[\w-]{16})=[^;]*;.*HttpOnly.*SameSite=Lax; Secure$/,
        );
    }
    const begun = await request("/api/auth/login", {}, { app: secureApp });
    expect(begun.headers.getSetCookie()).toEqual([
      expect.stringContaining("__Secure-svc_sign_in_"),
      expect.stringContaining("__Host-svc_sign_in_"),
    ]);
    expect(new URL(begun.headers.get("location") ?? "").searchParams.get("redirect_uri")).toBe(
      "https://fleet.example/api/auth/callback/idp",
    );
  });

  it("has the request's X-Request-Id if it is well-formed, and a problem names it", async () => {
    const withId = (id: string) => request("/api/nowhere", { headers: { "X-Request-Id": id } });
    const answer = await withId("order-66.a_B");
    expect(answer.headers.get("x-request-id")).toBe("order-66.a_B");
    expect(answer.headers.get("content-type")).toBe("application/problem+json");
    expect(await answer.json()).toEqual({
      type: "urn:svc:problem:not_found",
      title: "No such resource",
      status: 404,
      detail: "No such path",
      code: "not_found",
      action: "fix_request",
      request_id: "order-66.a_B",
    });
    for (const id of ["", "a b", "x".repeat(65)])
      expect((await withId(id)).headers.get("x-request-id")).toMatch(/^[0-9a-f-]{36}$/);
  });
});

describe("A5: a request from another site's page", () => {
  const json = { "Content-Type": "application/json" };

  it("is rejected when it changes something: another origin, none, or no media type", async () => {
    const refused = await Promise.all([
      post("/api/auth/logout", json),
      post("/api/auth/logout", { ...json, Origin: "https://evil.example" }),
      post("/api/auth/logout", { ...json, Origin: "null" }),
      post("/api/auth/logout", { ...json, Origin: `${web.origin}.evil.example` }),
      request("/api/auth/logout", {
        method: "POST",
        headers: { Cookie: cookie, Origin: web.origin },
      }),
      post("/api/core/chat/sessions", { ...json, Origin: "https://evil.example" }),
      request(`/api/core/chat/sessions/${people.admin.userId}`, {
        method: "DELETE",
        headers: { Cookie: cookie },
      }),
      request(`/api/core/chat/sessions/${people.admin.userId}`, {
        method: "PUT",
        headers: { Cookie: cookie, ...json, Origin: "https://evil.example" },
        body: '{"title":"Renamed"}',
      }),
    ]);
    for (const answer of refused) {
      expect({ status: answer.status, code: (await answer.json()).code }).toEqual({
        status: 403,
        code: "cross_origin_refused",
      });
      expect(answer.headers.getSetCookie()).toEqual([]);
    }
    const other = (await web.sessionOf("admin")).header;
    expect(
      (await post("/api/auth/logout", { ...json, Origin: web.origin, Cookie: other })).status,
    ).toBe(204);
  });

  it("is rejected when the browser marks a read as another site's", async () => {
    const from = async (site: string, path = "/api/session") =>
      (await request(path, { headers: { Cookie: cookie, "Sec-Fetch-Site": site } })).status;
    expect(
      await Promise.all(
        ["cross-site", "same-site", "same-origin", "none"].map((site) => from(site)),
      ),
    ).toEqual([403, 403, 200, 200]);
    // Other sites may link to the sign-in, and the provider redirects to the callback.
    expect(await from("cross-site", "/api/auth/login")).toBe(302);
    expect(await from("cross-site", "/api/auth/callback/idp")).toBe(303);
    expect(await from("cross-site", "/fleet")).toBe(200);
  });

  it.each(["/device", "/cli/authorize"])(
    "V5: may lead a whole tab to %s, and nothing else",
    async (path) => {
      const from = async (site: string, mode: string, dest: string, at = path) => {
        const headers = {
          Cookie: cookie,
          "Sec-Fetch-Site": site,
          "Sec-Fetch-Mode": mode,
          "Sec-Fetch-Dest": dest,
        };
        return (await request(at, { headers })).status;
      };
      for (const site of ["cross-site", "same-site"]) {
        expect(await from(site, "navigate", "document")).toBe(path === "/device" ? 200 : 400);
        for (const [mode, dest] of [
          ["navigate", "iframe"],
          ["navigate", "object"],
          ["no-cors", "image"],
          ["cors", "empty"],
        ] as const)
          expect({ mode, dest, status: await from(site, mode, dest) }).toEqual({
            mode,
            dest,
            status: 403,
          });
        expect(await from(site, "navigate", "document", "/api/core/whoami")).toBe(403);
      }
    },
  );
});

describe("a page", () => {
  const page = (path: string, headers: Record<string, string> = {}) =>
    request(path, { headers: { Accept: "text/html", ...headers } });

  it("is the application with a session, on any path, and a redirect to the sign-in page without one", async () => {
    const answer = await page("/fleet/anything", { Cookie: cookie });
    expect([answer.status, await answer.text()]).toEqual([
      200,
      expect.stringContaining("<div id=root>"),
    ]);
    const stranger = await page("/fleet?state=stale&q=a b");
    expect([stranger.status, stranger.headers.get("location")]).toEqual([
      302,
      "/login?return_to=%2Ffleet%3Fstate%3Dstale%26q%3Da%2520b",
    ]);
    expect((await page("/")).headers.get("location")).toBe("/login");
    expect((await page("/", { Cookie: "svc_session=forged" })).headers.get("location")).toBe(
      "/login",
    );
    expect(
      (await request("/fleet", { method: "POST", headers: { Accept: "text/html" } })).status,
    ).toBe(404);
  });

  it("leads to the sign-in page without a session, whatever a program or browser sends, and back", async () => {
    const senders = [
      {},
      { Accept: "*/*" },
      { Accept: "application/json" },
      {
        Accept: "*/*",
        "Sec-Fetch-Site": "cross-site",
        "Sec-Fetch-Mode": "cors",
        "Sec-Fetch-Dest": "empty",
      },
      { Accept: "image/png", "Sec-Fetch-Site": "same-origin", "Sec-Fetch-Dest": "image" },
    ];
    const pages = {
      "/": "/login",
      "/fleet": "/login?return_to=%2Ffleet",
      "/audit?a=b": "/login?return_to=%2Faudit%3Fa%3Db",
    };
    for (const headers of senders)
      for (const method of ["GET", "HEAD"])
        for (const [path, location] of Object.entries(pages)) {
          const answer = await request(path, { method, headers });
          expect([path, answer.status, answer.headers.get("location")]).toEqual([
            path,
            302,
            location,
          ]);
          expect(
            (await request(path, { method, headers: { ...headers, Cookie: cookie } })).status,
          ).toBe(200);
        }
    for (const path of [
      "/api/nowhere",
      "/v1/nowhere",
      "/scim/v2/nowhere",
      "/oauth/nowhere",
      "/.well-known/nowhere",
    ])
      expect([path, (await request(path, { headers: { Accept: "text/html" } })).status]).toEqual([
        path,
        path.startsWith("/v1") || path.startsWith("/scim") ? 401 : 404,
      ]);
  });

  it("A6: to sign in returns only to this origin", async () => {
    for (const evil of [
      "//evil.example",
      "/\\evil.example",
      "https://evil.example",
      "/.//evil.example",
    ]) {
      const query = new URLSearchParams({ return_to: evil });
      expect(await (await page(`/login?${query}`)).text()).toContain('href="/api/auth/login"');
      expect((await page(`/login?${query}`, { Cookie: cookie })).headers.get("location")).toBe("/");
      expect((await page(`/${evil}`)).headers.get("location")).toMatch(/^\/login/);
    }
  });

  it("to sign in shows no text of the address and needs no script", async () => {
    const hostile = "<script>alert(1)</script>";
    for (const query of [
      { reason: hostile, id: hostile },
      { reason: "suspended", id: hostile },
      { reason: "__proto__", id: "a" },
      { return_to: `/"><script>alert(1)</script>` },
    ]) {
      const text = await (
        await page(`/login?${new URLSearchParams(query as Record<string, string>)}`)
      ).text();
      expect(text).not.toContain("<script");
      expect(text).not.toMatch(/alert\(1\)[^%]/);
      expect(text).toContain("Sign in with Example ID</a>");
      expect(text).not.toMatch(/\sstyle=|\son[a-z]+=|undefined|\[object/);
    }
  });

  it("to sign in redirects a signed-in person unless it has a message", async () => {
    expect(
      (await page("/login?return_to=/fleet", { Cookie: cookie })).headers.get("location"),
    ).toBe("/fleet");
    expect((await page("/login?reason=suspended", { Cookie: cookie })).status).toBe(200);
  });

  it("to sign in is plain when the UI is not built, and the application is 404", async () => {
    const bare = createWebApp({ ...web.web, ui: undefined }, { remoteAddressOf });
    const at = (path: string) =>
      request(path, { headers: { Accept: "text/html", Cookie: cookie } }, { app: bare });
    expect(await (await request("/login", {}, { app: bare })).text()).not.toContain("stylesheet");
    expect((await at("/fleet")).status).toBe(404);
    expect(await (await page("/login")).text()).toContain(
      '<link rel="stylesheet" href="/assets/login-5e6f7a8b.css">',
    );
  });
});

describe("an asset", () => {
  const asset = (headers: Record<string, string> = {}, path = "/assets/app-1a2b3c4d.js") =>
    request(path, { headers });

  it("has the best accepted coding, and is immutable when its name is hashed", async () => {
    const codings = {
      "br, gzip": "br",
      gzip: "gzip",
      "gzip, br;q=0": "gzip",
      "br;q=0.0": null,
      "": null,
    };
    const etags = new Set<string | null>();
    for (const [accepted, coding] of Object.entries(codings)) {
      const { headers } = await asset({ "Accept-Encoding": accepted });
      expect([accepted, headers.get("content-encoding"), headers.get("vary")]).toEqual([
        accepted,
        coding,
        "Accept-Encoding",
      ]);
      expect(headers.get("cache-control")).toBe("public, max-age=31536000, immutable");
      expect(headers.get("content-type")).toBe("text/javascript; charset=utf-8");
      etags.add(headers.get("etag"));
    }
    expect(etags.size).toBe(3);
  });

  it("is 304 for a browser that has it", async () => {
    for (const path of ["/assets/app-1a2b3c4d.js", "/favicon.svg"]) {
      const etag = (await asset({}, path)).headers.get("etag") ?? "";
      const again = await asset({ "If-None-Match": `"other", W/${etag}` }, path);
      expect([again.status, await again.text()]).toEqual([304, ""]);
    }
  });

  it("I7: reads 100 KB of any adversarial header before the session check in less than 20 ms", async () => {
    const units = [" ", "\t", ",", " ,", '"', 'W/"', "W/", ";", "; ", "=", "a=", "a", "gzip;q="];
    const names = [
      "If-None-Match",
      "Accept-Encoding",
      "Accept",
      "Cookie",
      "Range",
      "X-Request-Id",
      "Origin",
    ];
    for (const name of names)
      for (const unit of units) {
        const headers = { [name]: `x${unit.repeat(100_000 / unit.length)}x` };
        const spent = await cpuMillisecondsOf(20, () => asset(headers));
        expect({ name, unit, fast: spent < 20 }).toEqual({ name, unit, fast: true });
      }
  });

  it("is 404 when missing; the manifest, hidden files and index.html are not served", async () => {
    for (const path of [
      "/assets/app-00000000.js",
      "/manifest.json",
      "/.vite/manifest.json",
      "/assets/",
      "/index.html",
    ])
      expect([path, (await asset({ Cookie: cookie }, path)).status]).toEqual([path, 404]);
  });
});

describe("probes", () => {
  it("report that the process is up, and whether the database and core answer", async () => {
    expect(await (await request("/healthz")).json()).toEqual({ status: "ready", checks: [] });
    const check = (name: string, status: string) => ({ name, status, detail: null });
    const serving = check("stopping", "ready");
    const ready = await request("/readyz");
    expect([ready.status, await ready.json()]).toEqual([
      200,
      { status: "ready", checks: [serving, check("database", "ready"), check("core", "ready")] },
    ]);
    const lonely = createWebApp(
      { ...web.web, fetch: () => Promise.reject(new TypeError("fetch failed")) },
      { remoteAddressOf },
    );
    const alone = await request("/readyz", {}, { app: lonely });
    expect([alone.status, await alone.json()]).toEqual([
      503,
      {
        status: "not_ready",
        checks: [serving, check("database", "ready"), check("core", "not_ready")],
      },
    ]);
  });

  it("share one check among concurrent requests", async () => {
    let asked = 0;
    const fetch = async () => {
      asked += 1;
      return new Response();
    };
    const app = createWebApp({ ...web.web, fetch }, { remoteAddressOf });
    const answers = await Promise.all(
      Array.from({ length: 50 }, () => request("/readyz", {}, { app })),
    );
    expect(answers.map(({ status }) => status)).toEqual(Array(50).fill(200));
    expect(asked).toBe(1);
  });

  it("answer within two seconds when core hangs", async () => {
    const hanging = createWebApp(
      { ...web.web, fetch: () => new Promise(() => undefined) },
      { remoteAddressOf },
    );
    const answer = request("/readyz", {}, { app: hanging });
    while (!web.log.text().includes("no answer within 2 s")) await web.clock.advance(500);
    expect((await answer).status).toBe(503);
  });
});

it("an unsupported method is 405 with the supported ones", async () => {
  const answer = await request("/login", { method: "PUT" });
  expect([answer.status, answer.headers.get("allow")]).toEqual([405, "GET"]);
  expect(await answer.json()).toMatchObject({
    code: "method_not_allowed",
    allowed_methods: ["GET"],
  });
});

it("an unexpected error is a problem document without detail; the log has it", async () => {
  const fetch = async () =>
    Object.assign(new Response("{}"), {
      json: () => Promise.reject(new Error("secret of core")),
    });
  const broken = createWebApp({ ...web.web, fetch }, { remoteAddressOf });
  const answer = await request("/api/session", { headers: { Cookie: cookie } }, { app: broken });
  expect([answer.status, await answer.text()]).toEqual([
    500,
    expect.not.stringContaining("secret"),
  ]);
  expect(web.log.text()).toContain("secret of core");
});

it("docs/security.md lists every route that web answers without a session", async () => {
  const page = readFileSync(`${import.meta.dirname}/../../docs/security.md`, "utf8");
  const [own = "", gateway = ""] = page.split("### Web")[1]?.split("- **").slice(1) ?? [];
  const listed = Array.from(
    `${own}${gateway}`.matchAll(/`((?:GET|POST) [^`…]+)`/g),
    ([, route]) => route,
  );
  const query = new URLSearchParams({
    response_type: "code",
    client_id: "svc-admin",
    client_name: "svc-admin",
    state: "s".repeat(16),
    redirect_uri: "http://127.0.0.1:1234/",
    code_challenge: "x".repeat(43),
    code_challenge_method: "S256",
  });
  const isOpen = async (method: string, path: string): Promise<boolean> => {
    const headers = { Origin: web.origin, "Content-Type": "application/x-www-form-urlencoded" };
    const body = method === "POST" ? { body: `${query}` } : {};
    const target = path === "/cli/authorize" ? `${path}?${query}` : path;
    const { status, headers: answer } = await request(target, { method, headers, ...body });
    return (
      status !== 401 &&
      !/^\/login(?!.*reason=(signed_out|sign_in_failed))/.test(answer.get("location") ?? "")
    );
  };
  const forwarded = ["/v1/openapi.json", "/v1/whoami", "/scim/v2/Users"].map((path) => ({
    method: "GET",
    path,
  }));
  const visited = [
    ...paths(web.app),
    ...forwarded,
    { method: "POST", path: "/v1/operator/token-exchange" },
  ];
  const open: string[] = [];
  for (const { method, path } of visited)
    if (await isOpen(method, path)) open.push(`${method} ${path}`);
  const files = /^GET \/(assets|favicon|nowhere|api\/nowhere)/;
  expect(open.filter((route) => !files.test(route)).sort()).toEqual(listed.toSorted());
});
