import { decodeJwt } from "jose";
import { describe, expect, it } from "vitest";
import { listenHttp } from "#functions/node/http/http-listener.ts";
import { people } from "#scripts/lab/people.ts";
import { useTestWeb } from "#tests/support/web.ts";
import { proxiedPath, proxiedRoutes } from "./proxy.ts";
import type { Fetch } from "./web.ts";

const web = await useTestWeb();
const cookie = (await web.sessionOf("auditor")).header;
const id = people.admin.userId;

/** Web with a core that records requests and answers as the test wants. */
const webOver = (answer: (request: Request) => Response | Promise<Response>) => {
  const asked: Request[] = [];
  const fetch: Fetch = async (url, init) => {
    const request = new Request(url, init);
    asked.push(request);
    return answer(request);
  };
  const app = web.appWith({ fetch });
  const request = async (path: string, init: RequestInit = {}) =>
    app.request(`${web.origin}/api/core${path}`, {
      ...init,
      headers: { Cookie: cookie, ...init.headers },
    });
  return { asked, app, request };
};
/** Web with a core that answers `body`. */
const webOverBody = (body: BodyInit, headers: Record<string, string> = {}) =>
  webOver(() => new Response(body, { headers }));

const json = { "Content-Type": "application/json" };
const unavailable = (detail: string) => ({ status: 503, code: "core_unavailable", detail });
const empty = () => new Response("{}");
/** A body of core's that the test sends part by part. */
const createBody = () => {
  let send: (text: string) => void = () => undefined;
  let cancelled = false;
  const body = new ReadableStream<Uint8Array>({
    start: (controller) => {
      send = (text) => controller.enqueue(new TextEncoder().encode(text));
    },
    cancel: () => {
      cancelled = true;
    },
  });
  return { body, send, isCancelled: () => cancelled };
};
/** An answer that comes only as the abort of its request. */
const never = ({ signal }: Request) =>
  new Promise<Response>((_, reject) =>
    signal.addEventListener("abort", () => reject(signal.reason)),
  );
const expectParts = async (answer: Response, send: (text: string) => void, parts: string[]) => {
  const reader = answer.body?.getReader();
  for (const part of parts) {
    send(part);
    expect(new TextDecoder().decode((await reader?.read())?.value)).toBe(part);
  }
  await reader?.cancel();
};

describe("the routes of core that a browser reaches", () => {
  it("are everything that operators may read, the request for diagnostics, watches, claims and chat; nothing else of core's router", () => {
    const patterns = proxiedRoutes.map(([method, path]) => `${method} /v1${path}`);
    const chat = patterns.filter((pattern) => pattern.includes("/v1/chat/"));
    const readable = web.core.routes
      .filter(
        ({ method, guard, path }) =>
          method === "GET" && guard.kind === "scope" && !path.startsWith("/v1/chat/"),
      )
      .map(({ method, path }) => `${method} ${path}`);
    expect(patterns).toEqual(expect.arrayContaining(readable));
    expect(
      patterns.filter((pattern) => !pattern.startsWith("GET ") && !chat.includes(pattern)),
    ).toEqual([
      "POST /v1/collector/hosts/:id/diags",
      "POST /v1/collector/watches",
      "PUT /v1/collector/watches/:id",
      "DELETE /v1/collector/watches/:id",
      "POST /v1/collector/watches/:id/silence",
      "POST /v1/collector/watches/:id/test",
      "POST /v1/now/claims",
      "DELETE /v1/now/claims/:id",
    ]);
  });

  it.each([
    ["without a session", { Cookie: "" }, 401, "unauthenticated"],
    ["of a person without the scope", {}, 403, "forbidden"],
    ["of another origin", { Origin: "https://evil.example" }, 403, "cross_origin_refused"],
    ["of a form", { "Content-Type": "text/plain" }, 415, "unsupported_media_type"],
  ])("change no watch by a request %s", async (_, given, status, code) => {
    const headers = { Cookie: cookie, Origin: web.origin, ...json, ...given };
    const body = JSON.stringify({ name: "by a page", filter: "state:stale" });
    const url = `${web.origin}/api/core/collector/watches`;
    const answer = await fetch(url, { method: "POST", headers, body });
    expect(await answer.json()).toMatchObject({ status, code });
    const { items } = await web.core.auditor.read<{ items: [] }>("/v1/collector/watches");
    expect(items).toEqual([]);
  });

  it("are only the listed ones, in any spelling of the path", async () => {
    const { asked, request } = webOver(empty);
    const posted = { method: "POST", headers: { Origin: web.origin, ...json }, body: "{}" };
    const refused = await Promise.all([
      request("/operator/sign-ins", posted),
      request(`/collector/identities/${id}/revoke`, posted),
      request("/openapi.json"),
      request("/collector/health/../../operator/sign-ins"),
      request("/collector/health/%2e%2e%2fconfigs"),
      request("/collector/health/not-an-id"),
      request("//collector/health"),
      request(`/collector/health/${id}/`),
      request("/collector/health", posted),
      // Outside of the API: the page, which knows no such address.
      request("/../../metrics"),
    ]);
    expect(refused.map(({ status }) => status)).toEqual([...Array(8).fill(404), 405, 200]);
    expect(refused.at(-1)?.headers.get("content-type")).toContain("text/html");
    expect(asked).toEqual([]);
  });

  it("have a pattern for each parameter, and none matches a dot segment", () => {
    const patterns = proxiedRoutes.flatMap(([, path]) =>
      [...proxiedPath(path).matchAll(/\{(.*?)\}(?=\/|$)/g)].map(([, pattern]) => pattern),
    );
    expect(patterns.length).toBeGreaterThan(10);
    for (const pattern of patterns) expect("..").not.toMatch(new RegExp(`^${pattern}$`));
    expect(() => proxiedPath("/collector/:unknown")).toThrow("no pattern of the parameter unknown");
  });

  it("need a session", async () => {
    const { asked, request } = webOver(empty);
    const answer = await request("/whoami", { headers: { Cookie: "" } });
    expect(await answer.json()).toMatchObject({ status: 401, code: "unauthenticated" });
    expect(answer.headers.get("www-authenticate")).toBe('Session realm="web"');
    expect(asked).toEqual([]);
  });
});

describe("a forwarded request", () => {
  it("has the path of its route, however the browser wrote it", async () => {
    const { asked, request } = webOver(empty);
    await request("/collector/%68ealth");
    await request(`/collector/health/${id.replace("-", "%2d")}?a=%2e`);
    await request(`/collector/hosts/${id}/diags/${id}`);
    await request("/collector/completeness/statements/2026-06-01T10:00:00.000Z?host=a");
    await request("/collector/completeness/statements/2026-06-01T10%3A00%3a00%252e%252e%2F");
    await request("/collector/applied-sets/production-1");
    expect(asked.map(({ url }) => url.replace("http://core.test/v1/collector", ""))).toEqual([
      "/health",
      `/health/${id}?a=%2e`,
      `/hosts/${id}/diags/${id}`,
      "/completeness/statements/2026-06-01T10%3A00%3A00.000Z?host=a",
      "/completeness/statements/2026-06-01T10%3A00%3A00%252e%252e%2F",
      "/applied-sets/production-1",
    ]);
  });

  it("has its own bridge token of 300 s, and of the browser's headers only Accept and If-None-Match", async () => {
    const { asked, request } = webOver(empty);
    const headers = {
      Accept: "text/csv",
      "Accept-Encoding": "br",
      "If-None-Match": 'W/"a"',
      "X-Request-Id": "order-66",
      Authorization: "Bearer of-the-browser",
      "X-Forwarded-For": "203.0.113.9",
      "X-Client-Cert": "a certificate",
      "User-Agent": "a browser",
    };
    await request("/collector/health?q=a%20b&state=stale&state=revoked", { headers });
    const [passed] = asked;
    expect(passed?.url).toBe(
      "http://core.test/v1/collector/health?q=a%20b&state=stale&state=revoked",
    );
    const { authorization, ...rest } = Object.fromEntries(passed?.headers ?? []);
    const own = { "accept-encoding": "identity", "x-request-id": "order-66" };
    expect(rest).toEqual({ accept: "text/csv", "if-none-match": 'W/"a"', ...own });
    const now = Math.floor(web.clock.now() / 1000);
    expect(decodeJwt(authorization?.replace("Bearer ", "") ?? "")).toEqual({
      sub: people.auditor.userId,
      aud: "core",
      web_session: expect.stringMatching(/^[\w-]{43}$/),
      web_session_exp: now + 1800,
      iat: now,
      exp: now + 300,
    });
  });

  it("streams core's response, and of its headers only the listed ones", async () => {
    const { body, send } = createBody();
    const { request } = webOverBody(body, {
      "Content-Type": "text/csv",
      "Content-Disposition": 'attachment; filename="stale.csv"',
      "Set-Cookie": "core=1",
      Server: "core",
      "Cache-Control": "public",
      "X-Request-Id": "core's own",
    });
    const answer = await request("/collector/health/export.csv?kind=stale");
    expect(Object.fromEntries(answer.headers)).toMatchObject({
      "content-type": "text/csv",
      "content-disposition": 'attachment; filename="stale.csv"',
      "cache-control": "no-store",
      "x-request-id": expect.not.stringContaining("core's own"),
    });
    for (const name of ["set-cookie", "server"]) expect(answer.headers.get(name)).toBeNull();
    await expectParts(answer, send, ["identity\n", "'=1+1\n"]);
  });

  it("T1: passes events on as they arrive, uncompressed, and ends core's stream when the browser stops reading", async () => {
    const { body, send, isCancelled } = createBody();
    const stream = { "Content-Type": "text/event-stream", "X-Accel-Buffering": "no" };
    const { asked, request } = webOverBody(body, stream);
    const answer = await request(`/chat/sessions/${id}/messages`, {
      method: "POST",
      headers: {
        Origin: web.origin,
        ...json,
        Accept: "text/event-stream",
        "Accept-Encoding": "gzip, br",
      },
      body: '{"content":"hello"}',
    });
    expect(asked[0]?.headers.get("accept")).toBe("text/event-stream");
    expect(Object.fromEntries(answer.headers)).toMatchObject({
      "content-type": "text/event-stream",
      "x-accel-buffering": "no",
      "cache-control": "no-store",
    });
    expect(answer.headers.get("content-encoding")).toBeNull();
    await expectParts(answer, send, ['event: text_delta\ndata: {"text":"3"}\n\n', ": open\n\n"]);
    expect(isCancelled()).toBe(true);
  });

  it("I4: does not change a CSV's cells", async () => {
    const csv = "identity,queue_bytes\r\n'=1+1,-3\r\n'＝x,4\r\n";
    const { request } = webOverBody(csv, { "Content-Type": "text/csv; charset=utf-8" });
    expect(await (await request("/collector/health/export.csv?kind=stale")).text()).toBe(csv);
  });

  it("keeps the status, code and Retry-After of core's problems", async () => {
    const agent = (await web.sessionOf("reader")).header;
    const headers = { Cookie: agent };
    const refused = await web.app.request(`${web.origin}/api/core/collector/health`, { headers });
    expect(await refused.json()).toMatchObject({
      status: 403,
      code: "forbidden",
      scope: "audit",
      request_id: refused.headers.get("x-request-id"),
    });
    const { request } = webOver(
      () => new Response("{}", { status: 503, headers: { "Retry-After": "7" } }),
    );
    const busy = await request("/collector/health");
    expect([busy.status, busy.headers.get("retry-after")]).toEqual([503, "7"]);
  });

  it("K2: names the clock when core rejects web's token for its times, and ends no session", async () => {
    const server_time = "2026-06-01T14:00:00.000Z";
    const refusal = () => Response.json({ code: "token_clock_skew", server_time }, { status: 401 });
    const { request } = webOver(refusal);
    for (const path of ["/collector/health", "/whoami"]) {
      const answer = await request(path);
      expect([answer.status, answer.headers.get("set-cookie")]).toEqual([503, null]);
      expect(await answer.json()).toMatchObject({
        code: "clock_skew",
        action: "fix_clock",
        detail: expect.stringMatching(
          /^Web's clock says .* and core's 2026-06-01T14:00:00.000Z: set the wrong one\./,
        ),
      });
    }
  });

  it("ends the session when core rejects the person", async () => {
    const { request } = webOver(() => new Response("{}", { status: 401 }));
    const answer = await request("/collector/health");
    expect([answer.status, answer.headers.get("set-cookie")]).toEqual([
      401,
      "svc_session=; HttpOnly; Max-Age=0; Path=/; SameSite=Lax",
    ]);
  });

  it("is 503 when core is unavailable, redirects, or does not answer in 5 s, and says which", async () => {
    const { request } = webOver(() => Promise.reject(new TypeError("fetch failed")));
    const answer = await request("/collector/health");
    expect(answer.headers.get("retry-after")).toBe("5");
    expect(await answer.json()).toMatchObject(unavailable("Core cannot be reached"));
    const hanging = webOver((request) => {
      expect(request.redirect).toBe("error");
      return never(request);
    });
    const late = hanging.request("/collector/health");
    while (hanging.asked.length === 0) await web.clock.advance(0);
    await web.clock.advance(4_999);
    expect(await Promise.race([late, "no answer"])).toBe("no answer");
    await web.clock.advance(1);
    expect(await (await late).json()).toMatchObject(unavailable("Core did not answer within 5 s"));
  });

  it("waits for 30 s for a change of a program, which may be of a thousand hosts", async () => {
    const { asked, app } = webOver((request) =>
      request.method === "GET" ? new Response("{}") : never(request),
    );
    const headers = { Authorization: "Bearer a.b.c", ...json };
    const change = { method: "POST", headers, body: "{}" };
    const late = (async () => app.request(`${web.origin}/v1/collector/config-rollbacks`, change))();
    while (asked.length < 2) await web.clock.advance(0);
    await web.clock.advance(29_999);
    expect(await Promise.race([late, "no answer"])).toBe("no answer");
    await web.clock.advance(1);
    expect(await (await late).json()).toMatchObject(unavailable("Core did not answer within 30 s"));
  });

  it("ends core's stream over the network when the browser disconnects", async () => {
    const ended = Promise.withResolvers<void>();
    const rows = new ReadableStream({
      pull: (controller) => controller.enqueue(new TextEncoder().encode("row\n".repeat(1000))),
      cancel: () => ended.resolve(),
    });
    const core = await listenHttp(
      {
        fetch: (request) =>
          request.url.includes("export.csv") ? new Response(rows) : web.core.fetch(request),
      },
      { port: 0, host: "127.0.0.1" },
    );
    const config = { ...web.web.config, apiUrl: `http://127.0.0.1:${core.port}/v1` };
    const front = await listenHttp(web.appWith({ config, fetch }), { port: 0, host: "127.0.0.1" });
    const disconnect = new AbortController();
    const ask = (path: string) =>
      fetch(`http://127.0.0.1:${front.port}/api/core${path}`, {
        headers: { Cookie: cookie },
        signal: disconnect.signal,
      });
    expect(await (await ask("/whoami")).json()).toMatchObject({ user_id: people.auditor.userId });
    const reader = (await ask("/collector/health/export.csv?kind=stale")).body?.getReader();
    expect((await reader?.read())?.value?.length).toBeGreaterThan(0);
    disconnect.abort();
    await ended.promise;
    await Promise.all([front.close(100), core.close(100)]);
  });

  it("ends when the browser disconnects", async () => {
    const disconnect = new AbortController();
    const { asked, request } = webOver(never);
    const answer = request("/collector/health", { signal: disconnect.signal });
    while (asked.length === 0) await web.clock.advance(0);
    disconnect.abort();
    expect((await answer).status).toBe(503);
    expect(asked[0]?.signal.aborted).toBe(true);
  });
});

describe("a browser's request", () => {
  const send = async (
    path: string,
    headers: Record<string, string>,
    body: string,
    method = "POST",
  ) => {
    const { asked, request } = webOver(
      async (passed) => new Response(await passed.text(), { status: 201 }),
    );
    const answer = await request(path, {
      method,
      headers: { Origin: web.origin, ...headers },
      body,
    });
    return { answer, asked };
  };

  it("has a JSON body of at most 200 KiB, for chat only", async () => {
    const path = `/chat/sessions/${id}/messages`;
    const { answer, asked } = await send(path, json, '{"content":"hello"}');
    expect([answer.status, await answer.text()]).toEqual([201, '{"content":"hello"}']);
    expect(asked[0]?.headers.get("content-type")).toBe("application/json");
    expect((await send(path, json, "x".repeat(204_800))).answer.status).toBe(201);
    expect((await send(path, json, "x".repeat(204_801))).answer.status).toBe(413);
    expect((await send(path, { "Content-Type": "text/plain" }, "{}")).answer.status).toBe(415);
    const renamed = await send(`/chat/sessions/${id}`, json, '{"title":"Rollout"}', "PUT");
    expect([renamed.asked[0]?.method, await renamed.answer.text()]).toEqual([
      "PUT",
      '{"title":"Rollout"}',
    ]);
  });

  it("has an address of at most 8 KiB, and is rate limited", async () => {
    const { request } = webOver(empty);
    expect((await request(`/collector/health?q=${"x".repeat(8190)}`)).status).toBe(414);
    const burst = await Promise.all(Array.from({ length: 210 }, () => request("/whoami")));
    const refused = burst.filter(({ status }) => status === 429);
    expect(refused.length).toBe(10);
    expect(refused[0]?.headers.get("retry-after")).toBe("1");
    await web.clock.advance(1000);
    expect((await request("/whoami")).status).toBe(200);
  });

  it("changes what others see or get only after a sign-in of the last 15 minutes", async () => {
    const headers = { Cookie: (await web.sessionOf("admin")).header, Origin: web.origin, ...json };
    const { asked, request } = webOver(empty);
    const changes = proxiedRoutes.filter(([method]) => method !== "GET");
    const codes = () =>
      Promise.all(
        changes.map(async ([method, path]) => {
          const init = { method, headers, ...(method === "DELETE" ? {} : { body: "{}" }) };
          return (await (await request(path.replaceAll(":id", id), init)).json()).code;
        }),
      );
    await web.clock.advance(899_000);
    expect(await codes()).toEqual(changes.map(() => undefined));
    expect(asked.splice(0).length).toBe(changes.length);
    await web.clock.advance(2_000);
    const isOwn = changes.map(([, path]) => path.startsWith("/chat/"));
    expect(await codes()).toEqual(isOwn.map((own) => (own ? undefined : "fresh_sign_in_required")));
    expect(asked.length).toBe(4);
    // The page's session goes on.
    expect((await request("/whoami", { headers })).status).toBe(200);
  });
});
