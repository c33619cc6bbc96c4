import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { type RequestOptions, request } from "node:https";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, beforeEach, expect, it } from "vitest";
import { newFolder } from "#tests/support/new-folder.ts";
import { listenOnLoopback } from "../ports.ts";
import { issueClient } from "./ca/issue-client.ts";
import { createLabPki, readCredentialFiles } from "./ca/pki.ts";
import { type Edge, type EdgeOptions, startEdge } from "./edge.ts";

/** A server in place of core, which keeps the requests that it receives. */
let core: Server;
let seen: {
  url: string | undefined;
  rawHeaders: string[];
  headers: IncomingMessage["headers"];
  body: string;
}[];
let answer: (request: IncomingMessage, response: ServerResponse) => void;
const dir = newFolder();
let edge: Edge;
let edgeOptions: EdgeOptions;
let ca: Buffer;
let stranger: { cert: string; key: string };
let member: { cert: string; key: string };

const client = async (lab: string) =>
  readCredentialFiles(await issueClient({ dir: lab, identity: "https://fleet.test/d/1" }));

beforeAll(async () => {
  const lab = await createLabPki({ dir: join(dir, "lab") });
  await createLabPki({ dir: join(dir, "other") });
  member = await client(join(dir, "lab"));
  stranger = await client(join(dir, "other"));
  ca = await readFile(lab.serverCaFile);
  core = createServer(async (request, response) => {
    const { url, rawHeaders, headers } = request;
    seen.push({ url, rawHeaders, headers, body: await text(request) });
    answer(request, response);
  });
  const port = await listenOnLoopback(core);
  edgeOptions = {
    certPem: await readFile(lab.edge.certFile, "utf8"),
    keyPem: await readFile(lab.edge.keyFile, "utf8"),
    clientCaPem: await readFile(lab.enrollmentCa.certFile, "utf8"),
    coreUrl: `http://127.0.0.1:${port}`,
    clientCertificateHeader: "X-Client-Cert",
  };
  edge = await startEdge(edgeOptions);
});
afterAll(async () => {
  await edge.close();
  core.closeAllConnections();
  core.close();
});
beforeEach(() => {
  seen = [];
  answer = (_, response) => response.end("fine");
});

const call = async (path: string, options: RequestOptions = {}, body?: string, { url } = edge) => {
  const outgoing = request(url + path, { ca, agent: false, ...options });
  outgoing.end(body);
  const [response] = await once(outgoing, "response");
  return { status: response.statusCode, headers: response.headers, body: await text(response) };
};

it("P2: drops a client certificate header that a caller sent, in any case, twice, or named by Connection", async () => {
  const forged = encodeURIComponent(member.cert.toString());
  await call("/v1/a", { headers: { "x-client-cert": forged } });
  await call("/v1/a", {
    headers: ["Host", "localhost", "X-CLIENT-CERT", forged, "x-client-cert", forged],
  });
  await call("/v1/a", { headers: { "X-Client-Cert": forged, Connection: "X-Client-Cert" } });
  expect(seen).toHaveLength(3);
  for (const { rawHeaders } of seen)
    expect(rawHeaders.join("\n").toLowerCase()).not.toContain("x-client-cert");
});

it("P4: sets the certificate of the handshake once, URL-escaped, whatever the caller sends", async () => {
  await call("/v1/a", {
    ...member,
    headers: { "X-Client-Cert": "forged", Connection: "close, X-Client-Cert" },
  });
  const { headers = {}, rawHeaders = [] } = seen[0] ?? {};
  const [leaf] = member.cert.toString().split(/(?<=-----END CERTIFICATE-----\n)/);
  expect(decodeURIComponent(String(headers["x-client-cert"]))).toBe(leaf);
  expect(String(headers["x-client-cert"])).not.toMatch(/[\s+/=]/);
  expect(rawHeaders.filter((name) => name.toLowerCase() === "x-client-cert")).toHaveLength(1);
});

it("does not forward a certificate of another authority, and serves the caller as anonymous", async () => {
  expect(await call("/v1/a", stranger)).toMatchObject({ status: 200 });
  expect(seen[0]?.headers).not.toHaveProperty("x-client-cert");
});

it("I8: declares itself a proxy, and drops forwarding headers of the caller", async () => {
  const forged = {
    Forwarded: "for=10.0.0.1",
    "X-Forwarded-For": "10.0.0.1",
    "X-Forwarded-Host": "evil.test",
    "X-Real-IP": "10.0.0.1",
    Via: "1.1 other",
  };
  await call("/v1/a?b=%2F", { headers: { ...forged, Authorization: "Bearer t" } });
  expect(seen[0]?.url).toBe("/v1/a?b=%2F");
  expect(seen[0]?.headers).toMatchObject({
    via: "1.1 edge",
    "x-forwarded-for": "127.0.0.1",
    "x-forwarded-proto": "https",
    authorization: "Bearer t",
  });
  for (const name of ["forwarded", "x-forwarded-host", "x-real-ip"])
    expect(seen[0]?.headers).not.toHaveProperty(name);
});

it("forwards bodies and responses unchanged, redirects included", async () => {
  answer = (_, response) => {
    response.writeHead(307, {
      Location: "/elsewhere",
      "X-Request-Id": "r1",
      "Content-Type": "application/json",
    });
    response.end("{}");
  };
  const body = "x".repeat(300_000);
  const sent = await call("/v1/a", { method: "POST", headers: { Expect: "100-continue" } }, body);
  expect(sent).toMatchObject({ status: 307, body: "{}" });
  expect(sent.headers).toMatchObject({ location: "/elsewhere", "x-request-id": "r1" });
  expect(seen[0]?.body).toBe(body);
});

it("exposes only the API, and answers for a core that is silent or unavailable", async () => {
  expect(await call("/metrics")).toMatchObject({ status: 404 });
  expect(await call("/v1/../metrics")).toMatchObject({ status: 404 });
  expect(seen).toEqual([]);
  answer = (_, response) => response.destroy();
  expect(await call("/v1/a")).toMatchObject({ status: 502 });
  answer = () => undefined;
  const withShortTimeout = await startEdge({ ...edgeOptions, timeoutMs: 200 });
  expect(await call("/v1/a", {}, undefined, withShortTimeout)).toMatchObject({ status: 504 });
  await withShortTimeout.close();
});
