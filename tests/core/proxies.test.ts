import { once } from "node:events";
import { readFile, writeFile } from "node:fs/promises";
import { type RequestOptions, request } from "node:https";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { ConnectedDatabase } from "#functions/store/database/database.ts";
import { systemClock } from "#kit/clock.ts";
import { systemEntropy } from "#kit/entropy.ts";
import { encodePem } from "#proto/pem.ts";
import { issueClient } from "#scripts/lab/ca/issue-client.ts";
import { createLabPki, type LabPki, readCredentialFiles } from "#scripts/lab/ca/pki.ts";
import { createTestKey } from "#scripts/lab/ca/test-pki.ts";
import { labCoreEnvironment } from "#scripts/lab/core-environment.ts";
import { heartbeatBody } from "#scripts/lab/heartbeat-body.ts";
import { createOperatorApi, type OperatorApi } from "#scripts/lab/operator-api.ts";
import { seedPeople } from "#scripts/lab/people.ts";
import { findPorts } from "#scripts/ports.ts";
import { createHostProgram } from "../collector/support/host-program.ts";
import {
  enrollTestCollector,
  identityPrefix,
  type TestCollector,
  withProof,
} from "../support/collector.ts";
import type { Api } from "../support/core.ts";
import { useTestDatabase } from "../support/database.ts";
import { isSlow } from "../support/is-slow.ts";
import { newFolder } from "../support/new-folder.ts";
import { startCore, stopProgram } from "../support/program.ts";
import { isInstalled, type ProxyName, type RunningProxy, startProxy } from "../support/proxies.ts";
import { findStored } from "../support/stored-envelopes.ts";

/* The documented proxies between real collectors and two real cores, of which one reads the header that the proxy sets. */
const secret = "a-test-secret-of-more-than-32-bytes";
const header = "X-Client-Cert";

const dir = newFolder();
let pki: LabPki;
let serverCa: string;
const database = await useTestDatabase();
let db: ConnectedDatabase;
let headerless: Awaited<ReturnType<typeof startCore>>;
let operator: OperatorApi;
let corePort: number;
let ingestPort: number;

const proxies: ProxyName[] = isSlow ? ["nginx", "haproxy"] : ["nginx"];
const names = proxies.map((name) => ({
  name,
  installed: isInstalled(name),
}));
const anyInstalled = names.some(({ installed }) => installed);

beforeAll(async () => {
  if (!anyInstalled) return;
  // A lab that is two days old can issue a certificate that has expired.
  pki = await createLabPki({
    dir: join(dir, "lab"),
    clock: { now: () => Date.now() - 2 * 86_400_000 },
  });
  serverCa = await readFile(pki.serverCaFile, "utf8");
  db = database.connect();
  await seedPeople(db.db, Date.now());
  const env = labCoreEnvironment({ databaseUrl: database.url, pki, authTokenSecret: secret });
  const ready = await startCore({ ...env, SVC_ENROLLMENT_CLIENT_CERT_HEADER: header });
  headerless = await startCore(env);
  ({ port: corePort, ingestPort } = ready);
  operator = createOperatorApi(ready.url, secret);
  // vitest ends nothing by itself that `beforeAll` has started.
  return () => Promise.all([ready, headerless].map(({ program }) => stopProgram(program)));
});
interface Reply {
  status: number;
  body: Record<string, unknown>;
}

/** Sends one request on a connection of its own; `headers` is a list of pairs and may repeat a name. */
const send = async (url: string, options: RequestOptions = {}, body = "") => {
  const { host } = new URL(url);
  const headers = [
    "Host",
    host,
    "Content-Type",
    "application/json",
    ...((options.headers as string[]) ?? []),
  ];
  const sent = request(url, {
    method: "POST",
    ca: serverCa,
    agent: false,
    ...options,
    headers: headers,
  });
  sent.on("error", () => undefined);
  sent.end(body);
  const [response] = await once(sent, "response");
  const content = await text(response);
  const isJson = String(response.headers["content-type"]).includes("json");
  return { status: response.statusCode ?? 0, body: isJson ? JSON.parse(content) : {} };
};

const newToken = async () => {
  const policies = "/v1/collector/enrollment-policies";
  const policy = { name: crypto.randomUUID(), allowed_identity_prefixes: [identityPrefix] };
  const { id } = await operator<{ id: string }>("admin", "POST", policies, policy);
  return (await operator<{ token: string }>("admin", "POST", `${policies}/${id}/tokens`, {})).token;
};

/** Enrolls a host through the proxy. */
const enrollHost = async (proxy: RunningProxy) => {
  const token = await newToken();
  const headers = ["Authorization", `Bearer ${token}`];
  const api = ((_, path, call) =>
    send(proxy.url + path, { headers }, JSON.stringify(call?.body))) as Api;
  return enrollTestCollector({ api }, { token, deviceId: crypto.randomUUID() });
};

const tlsOf = (host: TestCollector) => ({
  cert: encodePem(host.certificate, "CERTIFICATE"),
  key: host.key.pem,
});
const escaped = (host: TestCollector) =>
  encodeURIComponent(encodePem(host.certificate, "CERTIFICATE"));
const heartbeatPath = "/v1/collector/heartbeat";

let sent = 0;
/** Sends a heartbeat that `signer` signed; returns `accepted` or the refusal. */
const sendHeartbeat = async (url: string, signer: TestCollector, options: RequestOptions = {}) => {
  const body = withProof(signer, "heartbeat", heartbeatBody(Date.now() + ++sent));
  const answer = await send(url + heartbeatPath, options, JSON.stringify(body));
  return answer.status === 200 ? "accepted" : `${answer.status} ${answer.body.code}`;
};
const sendPlainHeartbeat = async (signer: TestCollector, value: string) => {
  const answer = await fetch(`http://127.0.0.1:${corePort}${heartbeatPath}`, {
    method: "POST",
    headers: { "Content-Type": "application/json", [header]: value },
    body: JSON.stringify(withProof(signer, "heartbeat", heartbeatBody(Date.now() + ++sent))),
  });
  return answer.ok
    ? "accepted"
    : `${answer.status} ${((await answer.json()) as Reply["body"]).code}`;
};
const withoutCertificate = "401 client_certificate_required";

/** Without the proxy each of these tests is reported as skipped. */
describe.each(names)("$name in front of core, as documented", ({ name, installed }) => {
  let proxy: RunningProxy;
  beforeAll(async () => {
    if (installed) proxy = await startProxy(name, { dir, pki, corePort, ingestPort });
  });
  afterAll(() => proxy?.stop());
  const through = it.runIf(installed);

  through("a real collector enrolls, forwards, sends heartbeats and renews", async () => {
    await writeFile(join(dir, "token"), await newToken(), { mode: 0o600 });
    const host = createHostProgram(`${name}-1`, { dir, identityPrefix }, () => ({
      coreUrl: proxy.url,
      ingestPort: Number(proxy.ingestEndpoint.split(":").at(-1)),
      caBundle: pki.serverCaFile,
    }));
    await host.enroll();
    await host.tail();
    await host.write("one", "two");
    host.start();
    const { identity } = host;
    const lines = async () =>
      (await findStored(db.sql)).filter(
        ({ hostId, kind }) => hostId === identity && kind === "log_line",
      ).length;
    const heartbeats = async () =>
      (
        await db.sql`select 1 from collector_health h join collector_identity i on i.id = h.identity_id
          where i.identity = ${identity}`
      ).length;
    await expect.poll(lines, { message: host.program()?.stderr ?? "" }).toBe(2);
    await expect.poll(heartbeats).toBe(1);
    await host.stop();
    expect(host.program()?.records.filter(({ level }) => level !== "info")).toEqual([]);

    await host.renew();
    const certificates =
      await db.sql`select 1 from certificate c join collector_identity i on i.id = c.identity_id
      where i.identity = ${identity} and c.status = 'active'`;
    expect(certificates).toHaveLength(2);
  });

  through("takes of TLS 1.2 only the ciphers that HTTP/2 allows", async () => {
    const old = { maxVersion: "TLSv1.2" } as const;
    expect((await send(proxy.url, { ...old, ciphers: "ECDHE+AESGCM" })).status).toBe(404);
    const refused = send(proxy.url, { ...old, ciphers: "ALL:!AESGCM:!CHACHA20:@SECLEVEL=0" });
    await expect(refused).rejects.toThrow("handshake failure");
  });

  through("P1: core ignores the header of the proxy unless it is configured", async () => {
    const host = await enrollHost(proxy);
    const ports = { corePort: headerless.port, ingestPort: headerless.ingestPort };
    const other = await startProxy(name, { dir, pki, ...ports });
    try {
      expect(await sendHeartbeat(other.url, host, tlsOf(host))).toBe(withoutCertificate);
      expect(await sendHeartbeat(proxy.url, host, tlsOf(host))).toBe("accepted");
    } finally {
      await other.stop();
    }
  });

  through(
    "P2, P3: the proxy removes a forged header in any spelling, once or twice; behind the proxy it proves no key",
    async () => {
      const victim = await enrollHost(proxy);
      const forged = escaped(victim);
      for (const spelling of [
        header,
        "x-client-cert",
        "X-CLIENT-CERT",
        "X_Client_Cert",
        "x_client_cert",
      ]) {
        expect(await sendHeartbeat(proxy.url, victim, { headers: [spelling, forged] })).toBe(
          withoutCertificate,
        );
        expect(
          await sendHeartbeat(proxy.url, victim, { headers: [spelling, forged, spelling, forged] }),
        ).toBe(withoutCertificate);
      }
      const thief = { ...victim, key: await createTestKey() };
      expect(await sendPlainHeartbeat(thief, forged)).toBe("401 proof_invalid");
      expect(await sendPlainHeartbeat(victim, forged)).toBe("accepted");
    },
  );

  through("P2: a forged header has no effect beside the sender's own certificate", async () => {
    const victim = await enrollHost(proxy);
    const attacker = await enrollHost(proxy);
    const forged = {
      ...tlsOf(attacker),
      headers: [header, escaped(victim), "x_client_cert", escaped(victim)],
    };
    expect(await sendHeartbeat(proxy.url, attacker, forged)).toBe("accepted");
    expect(await sendHeartbeat(proxy.url, { ...attacker, identity: victim.identity }, forged)).toBe(
      "401 proof_invalid",
    );
    expect(await sendHeartbeat(proxy.url, { ...victim, key: attacker.key }, forged)).toBe(
      "401 proof_invalid",
    );
  });

  through(
    "P4: Connection: X-Client-Cert neither removes the certificate nor admits a forged one",
    async () => {
      const host = await enrollHost(proxy);
      for (const connection of [
        "X-Client-Cert",
        "close, x-client-cert",
        "keep-alive, X-Client-Cert",
      ]) {
        const headers = ["Connection", connection];
        expect(await sendHeartbeat(proxy.url, host, { ...tlsOf(host), headers })).toBe("accepted");
        const forged = { headers: [...headers, header, escaped(host)] };
        expect(await sendHeartbeat(proxy.url, host, forged)).toBe(withoutCertificate);
      }
    },
  );

  through(
    "P5: the proxy removes a header with two PEMs, junk or double encoding; core rejects it",
    async () => {
      const host = await enrollHost(proxy);
      const one = escaped(host);
      for (const value of [one + one, `${one}junk`, encodeURIComponent(one), "junk"]) {
        expect(await sendPlainHeartbeat(host, value)).toBe("400 client_certificate_header_invalid");
        expect(await sendHeartbeat(proxy.url, host, { headers: [header, value] })).toBe(
          withoutCertificate,
        );
      }
      const { cert, key } = tlsOf(host);
      const chain = cert + (await readFile(pki.enrollmentCa.certFile, "utf8"));
      const junk = { cert: chain, key, headers: [header, "junk"] };
      expect(await sendHeartbeat(proxy.url, host, junk), "of a chain, the leaf").toBe("accepted");
    },
  );

  through("P6: at the forwarded ingest listener only the TLS certificate counts", async () => {
    const victim = await enrollHost(proxy);
    const host = await enrollHost(proxy);
    const ingest = `https://${proxy.ingestEndpoint}`;
    const forged = { ...tlsOf(host), headers: [header, escaped(victim)] };
    expect(await sendHeartbeat(ingest, host, forged)).toBe("accepted");
    expect(await sendHeartbeat(ingest, victim, forged)).toBe("401 proof_invalid");
    expect(await sendHeartbeat(ingest, victim, { headers: [header, escaped(victim)] })).toBe(
      "401 client_certificate_required",
    );
  });

  through("rejects a certificate that does not verify with core's problem codes", async () => {
    const host = await enrollHost(proxy);
    const provision = async (lab: string, lifetimeSeconds: number, now: number) => {
      const identity = `${identityPrefix}${crypto.randomUUID()}`;
      const clock = { now: () => now };
      return readCredentialFiles(await issueClient({ dir: lab, identity, lifetimeSeconds, clock }));
    };
    const expired = await provision(join(dir, "lab"), 3600, Date.now() - 86_400_000);
    expect(await sendHeartbeat(proxy.url, host, expired)).toBe("401 certificate_expired");
    await createLabPki({ dir: join(dir, `${name}-other`), clock: systemClock });
    const stranger = await provision(join(dir, `${name}-other`), 3600, Date.now());
    expect(await sendHeartbeat(proxy.url, host, stranger)).toBe("401 certificate_unknown");
    const manual = await provision(join(dir, "lab"), 3600, Date.now());
    const body = withProof(host, "heartbeat", heartbeatBody(Date.now() + ++sent));
    const answer = await send(proxy.url + heartbeatPath, manual, JSON.stringify(body));
    expect(answer.status).toBe(401);
  });

  through(
    "I2: rejects more than 1 MiB with a problem, with Content-Length or chunked, and core keeps running",
    async () => {
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
      expect(await sendHeartbeat(proxy.url, host, tlsOf(host))).toBe("accepted");
    },
  );

  through("answers for an unavailable core with a problem whose action is retry", async () => {
    const [closed] = await findPorts(1, systemEntropy);
    const lonely = await startProxy(name, { dir, pki, corePort: closed ?? 1, ingestPort });
    try {
      const answer = await send(lonely.url + heartbeatPath, {}, "{}");
      expect(answer).toMatchObject({
        status: 503,
        body: { code: "core_unreachable", status: 503, action: "retry" },
      });
    } finally {
      await lonely.stop();
    }
  });

  through("I8: the ops endpoints are unreachable in any spelling of the path", async () => {
    const get = (path: string) => send(proxy.url, { method: "GET", path });
    for (const path of [
      "/metrics",
      "/readyz",
      "//metrics",
      "/",
      "/v1/../metrics",
      "/v1/%2e%2e/metrics",
    ])
      expect({ path, ...(await get(path)) }).toMatchObject({
        status: 404,
        body: { code: "not_found" },
      });
    for (const path of ["/v1/..%2fmetrics", "/v1/\\..\\metrics", "/v1/%5c../metrics"])
      expect([400, 404], path).toContain((await get(path)).status);
  });
});
