import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import type { IncomingMessage } from "node:http";
import { type RequestOptions, request } from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { parseDocument } from "yaml";
import type { ConnectedDatabase } from "../functions/store/database.ts";
import { systemClock } from "../kit/clock.ts";
import { systemEntropy } from "../kit/entropy.ts";
import { encodePem } from "../proto/pem.ts";
import { coreEnvironment } from "../scripts/lab/core-process.ts";
import { heartbeatBody } from "../scripts/lab/heartbeat-body.ts";
import { createOperatorApi, type OperatorApi } from "../scripts/lab/operator-api.ts";
import { seedPeople } from "../scripts/lab/people.ts";
import { issueClient } from "../scripts/lab-ca/issue-client.ts";
import { createLabPki, type LabPki } from "../scripts/lab-ca/pki.ts";
import { createTestKey } from "../scripts/lab-ca/test-pki.ts";
import { findPorts } from "../scripts/ports.ts";
import { enrollTestCollector, identityPrefix, type TestCollector, withProof } from "./collector.ts";
import type { Api } from "./core.ts";
import { createTestDatabase, type TestDatabase } from "./database.ts";
import { logged, type Program, startProgram, stopProgram } from "./program.ts";
import { isInstalled, type ProxyName, type RunningProxy, startProxy } from "./proxies.ts";

/*
 * The documented proxies, as they are documented, between real collectors and real cores: one that reads the header which the
 * proxy sets, and one that does not.
 */
const secret = "a-test-secret-of-more-than-32-bytes";
const header = "X-Client-Cert";

let dir: string;
let pki: LabPki;
let serverCa: string;
let database: TestDatabase;
let db: ConnectedDatabase;
let core: Program;
let headerless: Program;
let operator: OperatorApi;
let corePort: number;
let ingestPort: number;

const names = (["nginx", "haproxy"] as const satisfies ProxyName[]).map((name) => ({ name, there: isInstalled(name) }));
const anyInstalled = names.some(({ there }) => there);

beforeAll(async () => {
  if (!anyInstalled) return;
  dir = await mkdtemp(join(tmpdir(), "svc-proxies-"));
  // A lab that is two days old can have issued a certificate that has expired.
  pki = await createLabPki({ dir: join(dir, "lab"), clock: { now: () => Date.now() - 2 * 86_400_000 } });
  serverCa = await readFile(pki.serverCaFile, "utf8");
  database = await createTestDatabase();
  db = database.connect();
  await seedPeople(db.db, Date.now());
  const env = coreEnvironment({ databaseUrl: database.url, pki, authTokenSecret: secret });
  core = startProgram("functions/main.ts", [], { ...env, SVC_ENROLLMENT_CLIENT_CERT_HEADER: header });
  headerless = startProgram("functions/main.ts", [], env);
  const ready = await logged(core, "ready");
  corePort = Number(ready.port);
  ingestPort = Number(ready.ingest_port);
  operator = createOperatorApi(`http://127.0.0.1:${corePort}`, secret);
});
afterAll(async () => {
  if (!anyInstalled) return;
  await Promise.all([stopProgram(core), stopProgram(headerless)]);
  await database.drop();
  await rm(dir, { recursive: true, force: true });
});

interface Reply {
  status: number;
  body: Record<string, unknown>;
}

/** One request on a connection of its own; `headers` as pairs in a list may repeat a name. */
const send = async (url: string, options: RequestOptions = {}, body = ""): Promise<Reply> => {
  const { host } = new URL(url);
  const headers = ["Host", host, "Content-Type", "application/json", ...((options.headers as string[]) ?? [])];
  const sent = request(url, { method: "POST", ca: serverCa, agent: false, ...options, headers: headers as never });
  sent.on("error", () => undefined);
  sent.end(body);
  const [response] = (await once(sent, "response")) as [IncomingMessage];
  const content = await text(response);
  const isJson = String(response.headers["content-type"]).includes("json");
  return { status: response.statusCode ?? 0, body: isJson ? JSON.parse(content) : {} };
};

const newToken = async (): Promise<string> => {
  const policies = "/v1/collector/enrollment-policies";
  const policy = { name: crypto.randomUUID(), allowed_identity_prefixes: [identityPrefix] };
  const { id } = await operator<{ id: string }>("admin", "POST", policies, policy);
  return (await operator<{ token: string }>("admin", "POST", `${policies}/${id}/tokens`, {})).token;
};

/** A host that enrolled through the proxy, whose key the test holds. */
const enrollHost = async (proxy: RunningProxy): Promise<TestCollector> => {
  const token = await newToken();
  const headers = ["Authorization", `Bearer ${token}`];
  const api = ((_, path, call) => send(proxy.url + path, { headers }, JSON.stringify(call?.body))) as Api;
  return enrollTestCollector({ api }, { token, deviceId: crypto.randomUUID() });
};

const tlsOf = (host: TestCollector) => ({ cert: encodePem(host.certificate, "CERTIFICATE"), key: host.key.pem });
const escaped = (host: TestCollector) => encodeURIComponent(encodePem(host.certificate, "CERTIFICATE"));
const heartbeatPath = "/v1/collector/heartbeat";

let sent = 0;
/** Sends a heartbeat that `signer` signed, and gives `taken` or the refusal. */
const beat = async (url: string, signer: TestCollector, options: RequestOptions = {}): Promise<string> => {
  const body = withProof(signer, "heartbeat", heartbeatBody(Date.now() + ++sent));
  const answer = await send(url + heartbeatPath, options, JSON.stringify(body));
  return answer.status === 200 ? "taken" : `${answer.status} ${answer.body.code}`;
};
const plainBeat = async (signer: TestCollector, value: string): Promise<string> => {
  const answer = await fetch(`http://127.0.0.1:${corePort}${heartbeatPath}`, {
    method: "POST",
    headers: { "Content-Type": "application/json", [header]: value },
    body: JSON.stringify(withProof(signer, "heartbeat", heartbeatBody(Date.now() + ++sent))),
  });
  return answer.ok ? "taken" : `${answer.status} ${((await answer.json()) as Reply["body"]).code}`;
};
const withoutCertificate = "401 client_certificate_required";

/** Where the proxy is not there: each test below is reported as skipped, by its name. */
describe.each(names)("$name before core, as documented", ({ name, there }) => {
  let proxy: RunningProxy;
  beforeAll(async () => {
    if (there) proxy = await startProxy(name, { dir, pki, corePort, ingestPort });
  });
  afterAll(() => proxy?.stop());
  const through = it.runIf(there);

  through("a real collector enrolls, forwards, sends heartbeats and renews", async () => {
    const host = join(dir, name);
    const [config, tokenFile, log] = [join(host, "collector.yaml"), join(dir, `${name}-token`), join(dir, "app.log")];
    await writeFile(tokenFile, await newToken(), { mode: 0o600 });
    const enroll = startProgram("collector/main.ts", [
      ...["enroll", "--core", proxy.url, "--ingest", proxy.ingestEndpoint, "--token-file", tokenFile],
      ...["--device-id", `${name}-1`, "--identity-prefix", identityPrefix],
      ...["--ca-bundle", pki.serverCaFile, "--config-dir", host],
      ...(process.geteuid?.() === 0 ? ["--allow-root-acknowledged", "I-UNDERSTAND-ROOT-MODE"] : []),
    ]);
    expect(await enroll.exited, enroll.stderr).toBe(0);

    const document = parseDocument(await readFile(config, "utf8"));
    document.set("sources", document.createNode([{ type: "file", include: [log], start_at: "beginning" }]));
    await writeFile(config, document.toString());
    await writeFile(log, "one\ntwo\n");
    const run = startProgram("collector/main.ts", ["run", "--config", config]);
    const identity = `${identityPrefix}${name}-1`;
    const lines = async () =>
      (await db.sql`select 1 from ingest_envelope where host_id = ${identity} and kind = 'log_line'`).length;
    const beats = async () =>
      (
        await db.sql`select 1 from collector_health h join collector_identity i on i.id = h.identity_id
          where i.identity = ${identity}`
      ).length;
    await expect.poll(lines, { message: run.stderr }).toBe(2);
    await expect.poll(beats).toBe(1);
    expect(await stopProgram(run), run.stderr).toBe(0);
    expect(run.records.filter(({ level }) => level !== "info")).toEqual([]);

    const renew = startProgram("collector/main.ts", ["renew", "--config", config]);
    expect(await renew.exited, renew.stderr).toBe(0);
    const certificates = await db.sql`select 1 from certificate c join collector_identity i on i.id = c.identity_id
      where i.identity = ${identity} and c.status = 'active'`;
    expect(certificates).toHaveLength(2);
  });

  through("P1: a core whose header is not configured ignores the one that the proxy sets", async () => {
    const host = await enrollHost(proxy);
    const ready = await logged(headerless, "ready");
    const ports = { corePort: Number(ready.port), ingestPort: Number(ready.ingest_port) };
    const other = await startProxy(name, { dir, pki, ...ports });
    try {
      expect(await beat(other.url, host, tlsOf(host))).toBe(withoutCertificate);
      expect(await beat(proxy.url, host, tlsOf(host))).toBe("taken");
    } finally {
      await other.stop();
    }
  });

  through(
    "P2, P3: a forged header is removed, in any spelling, once or twice; behind the proxy it proves no key",
    async () => {
      const victim = await enrollHost(proxy);
      const forged = escaped(victim);
      for (const spelling of [header, "x-client-cert", "X-CLIENT-CERT", "X_Client_Cert", "x_client_cert"]) {
        expect(await beat(proxy.url, victim, { headers: [spelling, forged] })).toBe(withoutCertificate);
        expect(await beat(proxy.url, victim, { headers: [spelling, forged, spelling, forged] })).toBe(
          withoutCertificate,
        );
      }
      const thief = { ...victim, key: await createTestKey() };
      expect(await plainBeat(thief, forged)).toBe("401 proof_invalid");
      expect(await plainBeat(victim, forged)).toBe("taken");
    },
  );

  through("P2: beside a certificate of one's own, a forged header changes nothing", async () => {
    const [victim, attacker] = [await enrollHost(proxy), await enrollHost(proxy)];
    const forged = { ...tlsOf(attacker), headers: [header, escaped(victim), "x_client_cert", escaped(victim)] };
    expect(await beat(proxy.url, attacker, forged)).toBe("taken");
    expect(await beat(proxy.url, { ...attacker, identity: victim.identity }, forged)).toBe("401 proof_invalid");
    expect(await beat(proxy.url, { ...victim, key: attacker.key }, forged)).toBe("401 proof_invalid");
  });

  through("P4: Connection: X-Client-Cert neither removes the certificate nor lets one in", async () => {
    const host = await enrollHost(proxy);
    for (const connection of ["X-Client-Cert", "close, x-client-cert", "keep-alive, X-Client-Cert"]) {
      const headers = ["Connection", connection];
      expect(await beat(proxy.url, host, { ...tlsOf(host), headers })).toBe("taken");
      const forged = { headers: [...headers, header, escaped(host)] };
      expect(await beat(proxy.url, host, forged)).toBe(withoutCertificate);
    }
  });

  through("P5: a header of two PEMs, junk or double encoding reaches core from the proxy's inside alone", async () => {
    const host = await enrollHost(proxy);
    const one = escaped(host);
    for (const value of [one + one, `${one}junk`, encodeURIComponent(one), "junk"]) {
      expect(await plainBeat(host, value)).toBe("400 client_certificate_header_invalid");
      expect(await beat(proxy.url, host, { headers: [header, value] })).toBe(withoutCertificate);
    }
    const { cert, key } = tlsOf(host);
    const chain = cert + (await readFile(pki.enrollmentCa.certFile, "utf8"));
    const junk = { cert: chain, key, headers: [header, "junk"] };
    expect(await beat(proxy.url, host, junk), "of a chain, the leaf").toBe("taken");
  });

  through("P6: through the passed-on ingest listener the TLS certificate alone decides", async () => {
    const [victim, host] = [await enrollHost(proxy), await enrollHost(proxy)];
    const ingest = `https://${proxy.ingestEndpoint}`;
    const forged = { ...tlsOf(host), headers: [header, escaped(victim)] };
    expect(await beat(ingest, host, forged)).toBe("taken");
    expect(await beat(ingest, victim, forged)).toBe("401 proof_invalid");
    await expect(beat(ingest, victim, { headers: [header, escaped(victim)] })).rejects.toThrow();
  });

  through("a certificate that does not verify is refused in core's words", async () => {
    const host = await enrollHost(proxy);
    const provision = async (lab: string, lifetimeSeconds: number, now: number) => {
      const identity = `${identityPrefix}${crypto.randomUUID()}`;
      const clock = { now: () => now };
      const files = await issueClient({ dir: lab, identity, lifetimeSeconds, clock, entropy: systemEntropy });
      return { cert: await readFile(files.certFile), key: await readFile(files.keyFile) };
    };
    const expired = await provision(join(dir, "lab"), 3600, Date.now() - 86_400_000);
    expect(await beat(proxy.url, host, expired)).toBe("401 certificate_expired");
    await createLabPki({ dir: join(dir, `${name}-other`), clock: systemClock });
    const stranger = await provision(join(dir, `${name}-other`), 3600, Date.now());
    expect(await beat(proxy.url, host, stranger)).toBe("401 certificate_unknown");
    const manual = await provision(join(dir, "lab"), 3600, Date.now());
    const body = withProof(host, "heartbeat", heartbeatBody(Date.now() + ++sent));
    const answer = await send(proxy.url + heartbeatPath, manual, JSON.stringify(body));
    expect(answer.status).toBe(401);
  });

  through("I2: over 1 MiB is refused as a problem, stated or chunked, and core goes on", async () => {
    const url = proxy.url + heartbeatPath;
    const host = await enrollHost(proxy);
    const large = "x".repeat(1_048_577);
    for (const framing of [
      ["Content-Length", String(large.length)],
      ["Transfer-Encoding", "chunked"],
    ])
      expect(await send(url, { ...tlsOf(host), headers: framing }, large)).toMatchObject({
        status: 413,
        body: { code: "payload_too_large" },
      });
    expect(await beat(proxy.url, host, tlsOf(host))).toBe("taken");
  });

  through("a core that is away is a problem that helps to retry", async () => {
    const [closed] = await findPorts(1, systemEntropy);
    const lonely = await startProxy(name, { dir, pki, corePort: closed ?? 1, ingestPort });
    try {
      const answer = await send(lonely.url + heartbeatPath, {}, "{}");
      expect(answer).toMatchObject({ status: 503, body: { code: "core_unreachable", status: 503, action: "retry" } });
    } finally {
      await lonely.stop();
    }
  });

  through("I8: the ops endpoints are not reachable, in any spelling of the path", async () => {
    const get = (path: string) => send(proxy.url, { method: "GET", path });
    for (const path of ["/metrics", "/readyz", "//metrics", "/", "/v1/../metrics", "/v1/%2e%2e/metrics"])
      expect({ path, ...(await get(path)) }).toMatchObject({ status: 404, body: { code: "not_found" } });
    for (const path of ["/v1/..%2fmetrics", "/v1/\\..\\metrics", "/v1/%5c../metrics"])
      expect([400, 404], path).toContain((await get(path)).status);
  });
});
