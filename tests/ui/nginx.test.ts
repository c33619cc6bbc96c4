import { once } from "node:events";
import { readFile } from "node:fs/promises";
import type { IncomingMessage } from "node:http";
import { request } from "node:https";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createLabPki, labServerNames } from "#scripts/lab/ca/pki.ts";
import { people } from "#scripts/lab/people.ts";
import { createUserAgent } from "#scripts/lab/user-agent.ts";
import { providerEnvironment } from "#scripts/lab/web-environment.ts";
import { startTamperingProvider, type TamperingProvider } from "../fakes/tampering-provider.ts";
import { newFolder } from "../support/new-folder.ts";
import { isInstalled, type RunningProxy, startProxy } from "../support/proxies.ts";
import { startTestWeb, type TestWeb } from "../support/web.ts";

/* The documented nginx.conf in front of web. tests/core/proxies.test.ts has what it does in front of core. */

const installed = isInstalled("nginx");
const host = "fleet.example.com";
const dir = newFolder();
let serverCa: string;
let provider: TamperingProvider;
let web: TestWeb;
let nginx: RunningProxy;

beforeAll(async () => {
  if (!installed) return;
  const pki = await createLabPki({
    dir: join(dir, "lab"),
    serverNames: [...labServerNames, host],
  });
  serverCa = await readFile(pki.serverCaFile, "utf8");
  provider = await startTamperingProvider({ subject: people.admin.subject, now: Date.now });
  web = await startTestWeb({
    env: {
      WEBAUTH_URL: `https://${host}`,
      SVC_TRUSTED_PROXIES: "127.0.0.1",
      ...providerEnvironment(provider),
    },
  });
  nginx = await startProxy("nginx", {
    dir,
    pki,
    corePort: 1,
    ingestPort: 1,
    webPort: Number(new URL(web.origin).port),
  });
});
afterAll(async () => {
  if (!installed) return;
  await nginx.stop();
  await web.close();
  await provider.close();
});

/** Sends a request to nginx, whatever the name in the URL resolves to; `servername` is the name in the handshake. */
const send = async (
  url: string,
  { servername = host, ...init }: RequestInit & { servername?: string } = {},
) => {
  const { pathname, search, host: name } = new URL(url);
  const sent = request(nginx.url, {
    ca: serverCa,
    servername,
    agent: false,
    path: pathname + search,
    method: init.method ?? "GET",
    headers: { ...Object.fromEntries(new Headers(init.headers)), host: name },
  });
  sent.on("error", () => undefined);
  sent.end(init.body);
  const [response] = (await once(sent, "response")) as [IncomingMessage];
  const headers = new Headers();
  for (const [key, values = []] of Object.entries(response.headersDistinct))
    for (const value of values) headers.append(key, value);
  return new Response((await text(response)) || null, {
    status: response.statusCode ?? 0,
    headers,
  });
};

describe.runIf(installed)("nginx in front of web, as documented", () => {
  it("passes a sign-in whose cookies have more than nginx's 4 KiB, with the address of the client that it sees itself", async () => {
    const end_session_endpoint = `${provider.issuer}/logout`;
    provider.tampering = {
      claims: { groups: "g".repeat(2500) },
      metadata: { end_session_endpoint },
    };
    const agent = createUserAgent((url, init) =>
      send(url, {
        ...init,
        headers: {
          ...Object.fromEntries(new Headers(init.headers)),
          "x-forwarded-for": "192.0.2.1",
        },
      }),
    );
    const begun = await agent.fetch(`https://${host}/api/auth/login`);
    const signedIn = await agent.fetch(
      provider.authorize(begun.headers.get("location") ?? "").href,
    );
    expect([signedIn.status, signedIn.headers.getSetCookie().join("").length > 4096]).toEqual([
      303,
      true,
    ]);
    expect(signedIn.headers.get("strict-transport-security")).toBe("max-age=31536000");
    expect((await agent.fetch(`https://${host}/api/session`)).status).toBe(200);
    const path = "/v1/audit-events?action=operator.sign_in&limit=1";
    const { body } = await web.core.auditor.get(path);
    expect(body.items).toMatchObject([{ outcome: "success", remote_addr: "127.0.0.1" }]);
  });

  it("passes the cookies of a browser that left sign-ins, which are more than nginx's 8 KiB", async () => {
    const cookie = Array.from(
      { length: 5 },
      (_, at) => `__Secure-svc_sign_in_${at}=${"x".repeat(3100)}`,
    ).join("; ");
    expect((await send(`https://${host}/login`, { headers: { cookie } })).status).toBe(200);
  });

  it("passes bodies of 12 MiB where svc-admin sends them, and of 1 MiB elsewhere", async () => {
    const body = "x".repeat(2 ** 20 + 1);
    const put = async (path: string) =>
      (await send(`https://${host}${path}`, { method: "PUT", body })).status;
    for (const path of ["/v1/collector/inventory", "/v1/collector/applied-sets/web"])
      expect([path, await put(path)]).toEqual([path, 401]);
    expect(await put("/v1/collector/inventory/other")).toBe(413);
  });

  it("passes a body on as it comes, so that web refuses it before nginx has stored it", async () => {
    const headers = { host, "content-length": String(12 * 2 ** 20) };
    const options = {
      ca: serverCa,
      servername: host,
      agent: false,
      path: "/v1/collector/inventory",
      method: "PUT",
    };
    const sent = request(nginx.url, { ...options, headers });
    sent.on("error", () => undefined);
    sent.write("x");
    const [response] = await once(sent, "response");
    sent.destroy();
    expect(response.statusCode).toBe(401);
  });

  it("answers for other names as core's edge, which a handshake in web's name does not reach", async () => {
    const others = "https://localhost/api/session";
    expect((await send(others, { servername: "localhost" })).status).toBe(404);
    expect((await send(others)).status).toBe(421);
  });
});
