import { once } from "node:events";
import { chmod, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createTestCa } from "#scripts/lab/ca/test-pki.ts";
import { listenOnLoopback } from "#scripts/ports.ts";
import { createServerTls, startConnectProxy } from "#tests/fakes/connect-proxy.ts";
import { type ManagementServer, startManagementServer } from "#tests/fakes/management-server.ts";
import { newFolder, whenDone } from "#tests/support/new-folder.ts";
import { type Authorities, openTls } from "./open-tls.ts";
import type { ConnectProxy } from "./proxy.ts";
import { createResumeTls, tlsServer } from "./resume-tls.ts";
import { openTunnel } from "./tunnel.ts";

let core: ManagementServer;
beforeEach(async () => {
  core = await startManagementServer();
});
afterEach(() => core.close());

const never = new AbortController().signal;
const startProxy = async (options?: Parameters<typeof startConnectProxy>[0]) => {
  const proxy = await startConnectProxy(options);
  whenDone(() => proxy.close());
  return proxy;
};
const through = (url: string, more: Partial<ConnectProxy> = {}): ConnectProxy => ({
  url,
  noProxy: [],
  credentialsFile: undefined,
  caFile: undefined,
  ...more,
});
const file = async (text: string) => {
  const path = join(newFolder(), "file");
  await writeFile(path, text, { mode: 0o600 });
  return path;
};
const open = (
  setting: ConnectProxy | undefined,
  {
    ca = core.caPem,
    signal = never,
    ...more
  }: Partial<Parameters<typeof openTls>[1]> & {
    ca?: string | Authorities;
  } = {},
) =>
  openTls(
    { ...tlsServer(new URL(core.url), undefined), ca },
    { proxy: { setting, variables: {} }, signal, ...more },
  );
const opens = async (...given: Parameters<typeof open>) => {
  const socket = await open(...given);
  socket.destroy();
  return socket;
};

describe("a tunnel", () => {
  it("carries the TLS of the server, and ends with it", async () => {
    const proxy = await startProxy();
    const socket = await open(through(proxy.url));
    expect(proxy.requests).toEqual([
      { authority: `localhost:${core.port}`, authorization: undefined },
    ]);
    expect(socket.getPeerX509Certificate()?.subjectAltName).toBe("DNS:localhost");
    expect(proxy.count()).toBe(1);
    socket.destroy();
    await expect.poll(proxy.count).toBe(0);
  });

  it("is not used for what no_proxy names, or without a proxy", async () => {
    const proxy = await startProxy();
    await opens(through(proxy.url, { noProxy: ["localhost"] }));
    await opens(undefined);
    expect(proxy.requests).toEqual([]);
  });

  it("ends when TLS throws", async () => {
    const proxy = await startProxy();
    const resume = () => {
      throw new Error("no TLS");
    };
    await expect(open(through(proxy.url), { resume })).rejects.toThrow("no TLS");
    expect(proxy.requests).toHaveLength(1);
    await expect.poll(proxy.count).toBe(0);
  });

  it("resumes the TLS session of the tunnel before", async () => {
    const proxy = await startProxy();
    const resume = createResumeTls();
    const reused = async () => {
      const socket = await open(through(proxy.url), { resume });
      const isReused = socket.isSessionReused();
      if (!isReused) await once(socket, "session");
      socket.destroy();
      return isReused;
    };
    expect([await reused(), await reused()]).toEqual([false, true]);
  });

  it("goes through an https proxy whose certificate its own authorities have issued, and nobody else's", async () => {
    const ca = await createTestCa();
    const proxy = await startProxy({ tls: await createServerTls(ca) });
    const caFile = await file(ca.pem);
    await opens(through(proxy.url, { caFile }));
    for (const other of [undefined, await file(core.caPem)])
      await expect(open(through(proxy.url, { caFile: other }))).rejects.toThrow(
        /^the proxy localhost:\d+ has a certificate that is not trusted: .*; compare proxy\.ca_file$/,
      );
    const named = proxy.url.replace("localhost", "127.0.0.1");
    await expect(open(through(named, { caFile }))).rejects.toThrow(/not trusted: .*does not match/);
    expect(proxy.requests).toHaveLength(1);
  });

  it("has the credentials of a file that is read for each connection, and of a URL of the environment", async () => {
    const proxy = await startProxy({ credentials: "user:pass:wörd" });
    const credentialsFile = await file("user:pass:wörd\n");
    const given = through(proxy.url, { credentialsFile });
    await opens(given);
    proxy.demand("user:next");
    await expect(open(given)).rejects.toThrow(
      /^the proxy localhost:\d+ rejects these credentials \(HTTP 407\): correct proxy\.credentials_file$/,
    );
    await writeFile(credentialsFile, "user:next");
    await opens(given);
    await chmod(credentialsFile, 0o644);
    await expect(open(given)).rejects.toThrow(/^proxy\.credentials_file is open to its group/);
    await expect(open(through(proxy.url, { credentialsFile: "/nowhere/x" }))).rejects.toThrow(
      /^proxy\.credentials_file cannot be read \(ENOENT\)$/,
    );
    await expect(open(through(proxy.url))).rejects.toThrow(/demands credentials \(HTTP 407\)/);
    await opens(through(proxy.url.replace("//", "//user:n%65xt@")));
  });
});

describe("authorities in order", () => {
  /** Authorities that note the positions of those that have verified a server. */
  const inOrder = (...texts: string[]) => {
    const verified: number[] = [];
    return { inOrder: () => texts, onVerified: (at: number) => void verified.push(at), verified };
  };

  it("verify a server by the first text that accepts it, also through a proxy, by a tunnel for each", async () => {
    const other = (await createTestCa({ name: "Other CA" })).pem;
    const proxy = await startProxy();
    const ca = inOrder(other, other + core.caPem, core.caPem);
    await opens(undefined, { ca });
    await opens(through(proxy.url), { ca });
    expect(ca.verified).toEqual([1, 1]);
    expect(proxy.requests).toHaveLength(2);
    const none = inOrder(other, other);
    await expect(open(undefined, { ca: none })).rejects.toMatchObject({
      code: "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
    });
    await expect(open(through(proxy.url), { ca: none })).rejects.toThrow(/its own certificate/);
    expect(none.verified).toEqual([]);
  });

  it("are not tried in turn when the server cannot be reached", async () => {
    const proxy = await startProxy({ credentials: "user:password" });
    const ca = inOrder(core.caPem, core.caPem);
    await expect(open(through(proxy.url), { ca })).rejects.toThrow(/demands credentials/);
    expect(proxy.requests).toHaveLength(1);
  });

  it("have TLS sessions of their own: a resumed one was verified by the same text", async () => {
    const other = (await createTestCa({ name: "Other CA" })).pem;
    const resume = createResumeTls();
    const reused = async (ca: Authorities) => {
      const socket = await open(undefined, { resume, ca });
      const isReused = socket.isSessionReused();
      if (!isReused) await once(socket, "session");
      socket.destroy();
      return isReused;
    };
    const both = inOrder(other, core.caPem);
    expect([await reused(both), await reused(both)]).toEqual([false, true]);
    const alone = inOrder(other + core.caPem, core.caPem);
    expect([await reused(alone), await reused(alone)]).toEqual([false, true]);
    expect([both.verified, alone.verified]).toEqual([
      [1, 1],
      [0, 0],
    ]);
  });
});

describe("a proxy that does not do its work is named", () => {
  it.each([
    [
      "another status",
      { answer: "HTTP/1.1 403 No\r\nContent-Length: 13\r\n\r\n<html></html>" },
      "answers CONNECT localhost:PORT with HTTP 403",
    ],
    [
      "401",
      { answer: "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n" },
      "demands credentials (HTTP 401): set proxy.credentials_file",
    ],
    [
      "HTML",
      { answer: "HTTP/1.1 200 OK\r\n\r\n<html></html>" },
      "answers CONNECT localhost:PORT with HTTP 200 and more",
    ],
    ["no HTTP", { answer: "SSH-2.0-x\r\n" }, "does not answer as an HTTP proxy: Parse Error"],
    [
      "half an answer",
      { answer: "HTTP/1.1 200 O", closes: true },
      "closed the connection before it had answered",
    ],
    ["no answer", { closes: true }, "closed the connection before it had answered"],
    [
      "a header of a megabyte",
      { answer: `HTTP/1.1 200 OK\r\nX: ${"x".repeat(1_000_000)}\r\n\r\n` },
      "does not answer as an HTTP proxy: Parse Error: Header overflow",
    ],
  ])("by %s", async (_name, fault, message) => {
    const proxy = await startProxy();
    proxy.fail(fault);
    await expect(open(through(proxy.url))).rejects.toMatchObject({
      name: "ProxyError",
      code: "unreachable",
      message: expect.stringContaining(
        `the proxy localhost:${proxy.port} ${message.replace("PORT", String(core.port))}`,
      ),
    });
    proxy.fail({});
    await opens(through(proxy.url));
  });

  it("by silence, or half an answer, after a time of its own", async () => {
    const proxy = await startProxy();
    const target = { host: "localhost", port: core.port };
    for (const answer of ["", "HTTP/1.1 200 O"]) {
      proxy.fail({ answer });
      await expect(openTunnel(through(proxy.url), target, never, 50)).rejects.toThrow(
        /^the proxy localhost:\d+ did not answer within 0\.05 s$/,
      );
    }
    proxy.fail({});
    const socket = await openTunnel(through(proxy.url), target, never, 2_000);
    socket.destroy();
  });

  it("where none listens", async () => {
    const server = createServer();
    const port = await listenOnLoopback(server);
    await new Promise((resolve) => server.close(resolve));
    await expect(open(through(`http://127.0.0.1:${port}`))).rejects.toThrow(
      `the proxy 127.0.0.1:${port} cannot be reached: connect ECONNREFUSED`,
    );
  });

  it("by a certificate in place of core's, also of the proxy's own authorities, and nothing is accepted", async () => {
    const ca = await createTestCa();
    const tls = await createServerTls(ca);
    const proxy = await startProxy({ tls });
    proxy.fail({ intercept: tls });
    await expect(open(through(proxy.url, { caFile: await file(ca.pem) }))).rejects.toMatchObject({
      name: "ProxyError",
      code: "server_untrusted",
      message: expect.stringMatching(
        /^the proxy localhost:\d+ answers for core with its own certificate \(.+\): core knows hosts by their certificates; except localhost from inspection, or compare the CA bundle$/,
      ),
    });
  });
});

it("stops with the reason of its signal at each step, and leaves no connection", async () => {
  const proxy = await startProxy();
  const silent = await startProxy();
  silent.fail({ answer: "" });
  for (const { url, requests } of [proxy, silent]) {
    const stop = new AbortController();
    const opening = open(through(url), { signal: stop.signal });
    const stopped = expect(opening).rejects.toThrow("stopping");
    if (url === silent.url) await expect.poll(() => requests.length).toBe(1);
    stop.abort(new Error("stopping"));
    await stopped;
  }
  await expect.poll(() => proxy.count() + silent.connections()).toBe(0);
});
