import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { people } from "#scripts/lab/people.ts";
import { cpuMillisecondsOf } from "#tests/support/cpu-time.ts";
import { useTestWeb } from "#tests/support/web.ts";
import { proxiedRoutes } from "./proxy.ts";

const web = await useTestWeb();
/** The same app on https. */
const secureApp = web.appWith({
  config: { ...web.web.config, origin: "https://fleet.example", secure: true },
});
const cookie = (await web.sessionOf("admin")).header;
const request = (path: string, init: RequestInit = {}, app = web.app) =>
  app.fetch(new Request(new URL(path, web.origin), init), {});
const post = (path: string, headers: Record<string, string>, body = "{}") =>
  request(path, { method: "POST", headers: { Cookie: cookie, ...headers }, body });

const get = (path: string) => ({ method: "GET", path });
/** Every registered path, and some that are not. */
const paths = (app: typeof web.app) => [
  ...app.routes
    .filter(({ method, path }) => method !== "ALL" && path !== "/*" && path !== "*")
    .map(({ method, path }) => ({
      method,
      path: path.replace(/:\w+\{.*?\}\}?/g, people.admin.userId),
    })),
  ...["/", "/fleet", "/api/nowhere", "/favicon.svg", "/assets/app-1a2b3c4d.js", "/nowhere.js"].map(
    get,
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
        expect(policy, path).toEqual(
          expect.arrayContaining([
            "default-src 'none'",
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
        expect(got["cache-control"], path).toMatch(
          isAsset ? /^(no-cache|public, .*immutable)$/ : /^no-store$/,
        );
      }
  });

  it("sends HSTS and only Secure cookies on https", async () => {
    for (const { method, path } of paths(secureApp)) {
      const headers = { Origin: "https://fleet.example" };
      const answer = await request(path, { method, headers }, secureApp);
      expect(answer.headers.get("strict-transport-security")).toBe("max-age=31536000");
      for (const set of answer.headers.getSetCookie())
        expect(set).toMatch(
          /^__(Host-svc_session|(Secure|Host)-svc_sign_in_[\w-]{16})=[^;]*;.*HttpOnly.*SameSite=Lax; Secure$/,
        );
    }
    const begun = await request("/api/auth/login", {}, secureApp);
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
    const logout = "/api/auth/logout";
    const session = `/api/core/chat/sessions/${people.admin.userId}`;
    const foreign = { Cookie: cookie, ...json, Origin: "https://evil.example" };
    const refused = await Promise.all([
      post(logout, json),
      post(logout, foreign),
      post(logout, { ...json, Origin: "null" }),
      post(logout, { ...json, Origin: `${web.origin}.evil.example` }),
      request(logout, { method: "POST", headers: { Cookie: cookie, Origin: web.origin } }),
      post("/api/core/chat/sessions", foreign),
      request(session, { method: "DELETE", headers: { Cookie: cookie } }),
      request(session, { method: "PUT", headers: foreign, body: '{"title":"Renamed"}' }),
    ]);
    for (const answer of refused) {
      expect(await answer.json()).toMatchObject({ status: 403, code: "cross_origin_refused" });
      expect(answer.headers.getSetCookie()).toEqual([]);
    }
    const own = { ...json, Origin: web.origin, Cookie: (await web.sessionOf("admin")).header };
    expect((await post(logout, own)).status).toBe(204);
  });

  it("is rejected when the browser marks a read as another site's", async () => {
    const from = async (site: string, path = "/api/session") =>
      (await request(path, { headers: { Cookie: cookie, "Sec-Fetch-Site": site } })).status;
    for (const site of ["cross-site", "same-site"]) expect(await from(site)).toBe(403);
    for (const site of ["same-origin", "none"]) expect(await from(site)).toBe(200);
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
          expect(await from(site, mode, dest), dest).toBe(403);
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
    expect(answer.status).toBe(200);
    expect(await answer.text()).toContain("<div id=root>");
    const stranger = await page("/fleet?state=stale&q=a b");
    const login = "/login?return_to=%2Ffleet%3Fstate%3Dstale%26q%3Da%2520b";
    expect([stranger.status, stranger.headers.get("location")]).toEqual([302, login]);
    const forged = await page("/", { Cookie: "svc_session=forged" });
    expect(forged.headers.get("location")).toBe("/login");
    expect((await request("/fleet", { method: "POST" })).status).toBe(404);
  });

  it("announces the script that it loads on demand, with all that this imports", async () => {
    const linksOf = async (path: string) =>
      (await page(path, { Cookie: cookie })).headers.get("link");
    expect(await linksOf("/fleet?q=x")).toBe(
      [
        "</assets/fleet-9c0d1e2f.js>; rel=modulepreload",
        "</assets/app-1a2b3c4d.js>; rel=modulepreload",
        "</assets/login-5e6f7a8b.css>; rel=preload; as=style; crossorigin",
      ].join(", "),
    );
    // A build without this script, and a page that none is named for.
    expect([await linksOf("/"), await linksOf("/watches")]).toEqual([null, null]);
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
          expect([answer.status, answer.headers.get("location")]).toEqual([302, location]);
          const signedIn = { ...headers, Cookie: cookie };
          expect((await request(path, { method, headers: signedIn })).status).toBe(200);
        }
    for (const path of [
      "/api/nowhere",
      "/v1/nowhere",
      "/scim/v2/nowhere",
      "/oauth/nowhere",
      "/.well-known/nowhere",
    ])
      expect((await page(path)).status, path).toBe(/^\/(v1|scim)/.test(path) ? 401 : 404);
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
      const parameters = new URLSearchParams(query);
      const text = await (await page(`/login?${parameters}`)).text();
      expect(text).not.toContain("<script");
      expect(text).not.toMatch(/alert\(1\)[^%]/);
      expect(text).toContain("Sign in with Example ID</a>");
      expect(text).not.toMatch(/\sstyle=|\son[a-z]+=|undefined|\[object/);
    }
  });

  it("to sign in redirects a signed-in person unless it has a message", async () => {
    const at = (query: string) => page(`/login?${query}`, { Cookie: cookie });
    expect((await at("return_to=/fleet")).headers.get("location")).toBe("/fleet");
    expect((await at("reason=suspended")).status).toBe(200);
  });

  it("to sign in is plain when the UI is not built, and the application is 404", async () => {
    const bare = web.appWith({ ui: undefined });
    const headers = { Accept: "text/html", Cookie: cookie };
    expect(await (await request("/login", {}, bare)).text()).not.toMatch(/<link|<script/);
    expect((await request("/fleet", { headers }, bare)).status).toBe(404);
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
      expect(headers.get("content-encoding"), accepted).toBe(coding);
      expect(Object.fromEntries(headers)).toMatchObject({
        vary: "Accept-Encoding",
        "cache-control": "public, max-age=31536000, immutable",
        "content-type": "text/javascript; charset=utf-8",
      });
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
        expect(spent, `${name}: ${unit}`).toBeLessThan(20);
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
      expect((await asset({ Cookie: cookie }, path)).status, path).toBe(404);
  });
});

describe("probes", () => {
  it("report that the process is up, and whether the database and core answer", async () => {
    expect(await (await request("/healthz")).json()).toEqual({ status: "ready", checks: [] });
    const lonely = web.appWith({ fetch: () => Promise.reject(new TypeError("fetch failed")) });
    for (const [app, code, status] of [
      [web.app, 200, "ready"],
      [lonely, 503, "not_ready"],
    ] as const) {
      const answer = await request("/readyz", {}, app);
      const checks = Object.entries({ stopping: "ready", database: "ready", core: status });
      expect([answer.status, await answer.json()]).toEqual([
        code,
        { status, checks: checks.map(([name, of]) => ({ name, status: of, detail: null })) },
      ]);
    }
  });

  it("share one check among concurrent requests", async () => {
    let asked = 0;
    const fetch = async () => {
      asked += 1;
      return new Response();
    };
    const app = web.appWith({ fetch });
    const answers = await Promise.all(
      Array.from({ length: 50 }, () => request("/readyz", {}, app)),
    );
    expect(answers.map(({ status }) => status)).toEqual(Array(50).fill(200));
    expect(asked).toBe(1);
  });

  it("answer within two seconds when core hangs", async () => {
    const hanging = web.appWith({ fetch: () => new Promise(() => undefined) });
    const answer = request("/readyz", {}, hanging);
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
  const broken = web.appWith({ fetch });
  const answer = await request("/api/session", { headers: { Cookie: cookie } }, broken);
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
  const isOpen = async (method: string, path: string) => {
    const headers = { Origin: web.origin, "Content-Type": "application/x-www-form-urlencoded" };
    const body = method === "POST" ? { body: `${query}` } : {};
    const target = path === "/cli/authorize" ? `${path}?${query}` : path;
    const { status, headers: answer } = await request(target, { method, headers, ...body });
    return (
      status !== 401 &&
      !/^\/login(?!.*reason=(signed_out|sign_in_failed))/.test(answer.get("location") ?? "")
    );
  };
  const visited = [
    ...paths(web.app),
    ...["/v1/openapi.json", "/v1/whoami", "/scim/v2/Users"].map(get),
    { method: "POST", path: "/v1/operator/token-exchange" },
  ];
  const open: string[] = [];
  for (const { method, path } of visited)
    if (await isOpen(method, path)) open.push(`${method} ${path}`);
  const files = /^GET \/(assets|favicon|nowhere|api\/nowhere)/;
  expect(open.filter((route) => !files.test(route)).sort()).toEqual(listed.toSorted());
});
