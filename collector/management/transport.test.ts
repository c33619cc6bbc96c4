import { once } from "node:events";
import { createServer } from "node:http";
import { connect } from "node:http2";
import { afterEach, describe, expect, it } from "vitest";
import { listenOnLoopback } from "#scripts/ports.ts";
import { type ManagementServer, startManagementServer } from "#tests/fakes/management-server.ts";
import { createResumeTls } from "../connect/resume-tls.ts";
import { postJson, type TransportOptions } from "./transport.ts";

const servers: ManagementServer[] = [];
afterEach(async () => {
  for (const server of servers.splice(0)) await server.close();
});
const startServer = async (options?: Parameters<typeof startManagementServer>[0]) => {
  const server = await startManagementServer(options);
  servers.push(server);
  server.reply(() => ({ status: 200, body: { ok: true } }));
  return server;
};
const to = (server: ManagementServer, over: Partial<TransportOptions> = {}) => ({
  baseUrl: server.url,
  caPem: server.caPem,
  serverName: undefined,
  timeoutMs: 60_000,
  ...over,
});
const request = { path: "/v1/x", body: { a: "é" } };
const fails = (asked: Promise<unknown>, failure: object) =>
  expect(asked).rejects.toMatchObject({ failure });

describe.each([
  ["HTTP/1.1", false],
  ["HTTP/2", true],
])("postJson over %s", (_name, http2) => {
  it("posts under the base URL's path, and returns status, type and text", async () => {
    const server = await startServer({ http2 });
    server.reply(() => ({
      status: 429,
      body: { code: "rate_limited" },
      headers: { "retry-after": "7" },
    }));
    const answer = await postJson(to(server, { baseUrl: `${server.url}/prefix/` }), request);
    expect(answer).toEqual({
      status: 429,
      contentType: "application/problem+json",
      retryAfter: "7",
      text: '{"code":"rate_limited"}',
      date: expect.any(String),
    });
    expect(server.calls[0]).toMatchObject({
      path: "/prefix/v1/x",
      body: { a: "é" },
      httpVersion: http2 ? "2.0" : "1.1",
    });
  });

  it("fails after the timeout, when its signal aborts, and when the connection ends without a response", async () => {
    const server = await startServer({ http2 });
    server.reply(() => new Promise<never>(() => undefined));
    // On a busy machine the timeout may pass before the server receives anything.
    await fails(postJson(to(server, { timeoutMs: 50 }), request), { code: "timeout" });
    const stop = new AbortController();
    const asked = postJson(to(server), { ...request, path: "/v1/stopped", signal: stop.signal });
    const stopped = expect(asked).rejects.toThrow("stopping");
    await expect.poll(() => server.calls.map(({ path }) => path)).toContain("/v1/stopped");
    stop.abort(new Error("stopping"));
    await stopped;
    server.reply(() => "cut");
    await fails(postJson(to(server), request), { code: "unreachable", action: "retry" });
  });

  it("resumes the TLS session of the request before, as often as it is known, and none of another transport", async () => {
    const server = await startServer({ http2 });
    const kept = to(server, { resume: createResumeTls() });
    for (let count = 0; count < 3; count++) await postJson(kept, request);
    await postJson(to(server), request);
    await postJson(to(server, { resume: createResumeTls() }), request);
    expect(server.calls.map(({ isResumed }) => isResumed)).toEqual([
      false,
      true,
      true,
      false,
      false,
    ]);
  });

  it("reads at most 1 MiB", async () => {
    const server = await startServer({ http2 });
    server.reply(() => ({ status: 200, body: { long: "x".repeat(1_100_000) } }));
    await fails(postJson(to(server), request), { code: "answer_invalid" });
  });

  it("checks the certificate against the server name if there is one, else against the URL's host", async () => {
    const server = await startServer({ http2, name: "core.internal" });
    await fails(postJson(to(server), request), {
      code: "server_untrusted",
      action: "stop",
      message: expect.stringContaining("another name"),
    });
    expect((await postJson(to(server, { serverName: "core.internal" }), request)).status).toBe(200);
    await fails(postJson(to(server, { caPem: undefined, serverName: "core.internal" }), request), {
      code: "server_untrusted",
      message: expect.stringMatching(/: [^;]+; compare the CA bundle given/),
    });
    expect(server.calls).toHaveLength(1);
  });

  it("names both clocks, not the CA bundle, where the certificate is not valid at this host's time", async () => {
    const server = await startServer({ http2, notBefore: new Date("2098-01-01") });
    const verified: number[] = [];
    const onVerified = (position: number) => void verified.push(position);
    const caPem = { inOrder: () => [server.caPem], onVerified };
    await fails(postJson(to(server, { caPem }), { ...request, bearer: "a-token" }), {
      code: "server_untrusted",
      action: "fix_clock",
      message: expect.stringMatching(
        /is not yet valid: this host's clock says .{25} GMT, the server's .{25} GMT$/,
      ),
    });
    // Nothing was sent but a question for the time.
    expect(server.calls).toMatchObject([{ body: {}, authorization: undefined }]);
    expect(verified).toEqual([]);
  });

  it("says in one line that a port has no TLS", async () => {
    const plain = createServer();
    const port = await listenOnLoopback(plain);
    const asked = postJson(
      { ...to(await startServer({ http2 })), baseUrl: `https://127.0.0.1:${port}` },
      request,
    );
    await fails(asked, {
      code: "unreachable",
      message: "there is no TLS on this port; use that of core's TLS edge",
    });
    plain.close();
  });
});

describe("an open session", () => {
  const credentials = { certificatePem: "", keyPem: "" };
  const openSession = async (server: ManagementServer) => {
    const session = connect(server.url, { ca: server.caPem });
    await once(session, "connect");
    return session;
  };

  it("carries requests with credentials, also after one that was aborted, and no others", async () => {
    const server = await startServer({ http2: true });
    const session = await openSession(server);
    const shared = to(server, { session: () => session });
    await postJson(shared, { ...request, credentials });
    server.reply(() => new Promise<never>(() => undefined));
    await fails(postJson({ ...shared, timeoutMs: 50 }, { ...request, credentials }), {
      code: "timeout",
    });
    server.reply(() => ({ status: 200, body: { ok: true } }));
    await postJson(shared, { ...request, path: "/v1/after", credentials });
    await postJson(shared, { ...request, path: "/v1/own" });
    const { localPort } = session.socket;
    const onSession = server.calls
      .filter(({ clientPort }) => clientPort === localPort)
      .map(({ path }) => path);
    expect(onSession).toContain("/v1/after");
    expect(onSession).not.toContain("/v1/own");
    session.close();
  });

  it("W1: receives the host of a URL with its brackets", async () => {
    const server = await startServer({ http2: true });
    const session = await openSession(server);
    const baseUrl = "https://[::1]:8443";
    await postJson(to(server, { baseUrl, session: () => session }), { ...request, credentials });
    expect(server.calls[0]?.authority).toBe("[::1]:8443");
    session.close();
  });

  it("that breaks fails the request, and the next one connects", async () => {
    const server = await startServer({ http2: true });
    const session = await openSession(server);
    const shared = to(server, { session: () => (session.destroyed ? undefined : session) });
    server.reply(() => "cut");
    await fails(postJson(shared, { ...request, credentials }), {
      code: "unreachable",
      action: "retry",
    });
    server.reply(() => ({ status: 200, body: { ok: true } }));
    expect((await postJson(shared, { ...request, credentials })).status).toBe(200);
  });
});
