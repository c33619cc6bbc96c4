import {
  appendFile,
  chmod,
  lstat,
  mkdir,
  readdir,
  readFile,
  readlink,
  rm,
  stat,
  symlink,
  writeFile,
} from "node:fs/promises";
import { createServer } from "node:http";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { parse } from "yaml";
import { createTestCa, createTestKey, type TestCa, x509 } from "#scripts/lab/ca/test-pki.ts";
import { listenOnLoopback } from "#scripts/ports.ts";
import { createTestCollectorEnv } from "#tests/fakes/collector-env.ts";
import { createServerTls, startConnectProxy } from "#tests/fakes/connect-proxy.ts";
import {
  issueFor,
  type ManagementServer,
  refusal,
  startManagementServer,
} from "#tests/fakes/management-server.ts";
import { newFolder, whenDone } from "#tests/support/new-folder.ts";
import { loadConfig } from "../config/load-config.ts";
import { describeTrust } from "../identity/channel-trust.ts";
import { runCommandLine } from "./command-line.ts";

const token = `svcbt_${"A1b2C3d4E5".repeat(5).slice(0, 49)}`;
const jwt =
  "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJzeXN0ZW06c2VydmljZWFjY291bnQifQ.c2lnbmF0dXJlLW9mLWEtdGVzdA";
const prefix = "https://fleet.test/d/";

let dir: string;
let server: ManagementServer;
let clientCa: TestCa;

beforeEach(async () => {
  dir = newFolder();
  server = await startManagementServer();
  clientCa = await createTestCa({ name: "Client CA" });
  await writeFile(tokenFile(), `${token}\n`);
  await writeFile(join(dir, "ca.pem"), server.caPem);
  server.reply((call) => issueFor(clientCa, call));
});
afterEach(() => server.close());

const etc = () => join(dir, "etc");
const tokenFile = () => join(dir, "token");
/** The flag of a service account token, which is in the same file. */
const projected = () => ["--service-account-token-file", tokenFile()];
const current = (name: string) => join(etc(), "identity", "current", name);

const enroll = async (
  more: readonly string[] = [],
  over: Parameters<typeof createTestCollectorEnv>[0] = {},
) => {
  const env = createTestCollectorEnv(over);
  const given = (flag: string, ...values: string[]) =>
    more.includes(flag) ? [] : [flag, ...values];
  const code = await runCommandLine(
    [
      "enroll",
      ...given("--core", server.url),
      ...given("--ingest", "localhost:8443"),
      ...(more.some((flag) => /^--(token-stdin|service-)/.test(flag))
        ? []
        : given("--token-file", tokenFile())),
      ...given("--device-id", "host 1"),
      ...given("--identity-prefix", prefix),
      ...given("--ca-bundle", join(dir, "ca.pem")),
      ...given("--config-dir", etc()),
      ...more,
    ],
    env,
  );
  return { code, env, said: env.out() + env.err() };
};

type Enrollment = Parameters<typeof enroll>;
const succeeds = async (...given: Enrollment) => {
  const { code, env } = await enroll(...given);
  expect(code).toBe(0);
  return env;
};
const fails = async (code: number, text: string, ...given: Enrollment) => {
  const failed = await enroll(...given);
  expect([failed.code, failed.said]).toEqual([code, expect.stringContaining(text)]);
};

const read = (path: string) => readFile(path, "utf8");
const configFile = () => join(etc(), "collector.yaml");
const loadWritten = () => loadConfig(configFile(), { effectiveUid: 1000 });

/** The key of the last request, or of one of them. */
const csrKey = (at = -1) => {
  const request = new x509.Pkcs10CertificateRequest(String(server.calls.at(at)?.body.csr_pem));
  return Buffer.from(request.publicKey.rawData).toString("hex");
};

const allFiles = async (path: string) => {
  const entries = await readdir(path, { withFileTypes: true, recursive: true });
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));
};

it("writes private credentials, bundles and a valid config, and prints the next steps", async () => {
  const env = await succeeds();
  expect(env.err()).toMatch(
    /^svc-collector enroll: created a key on this host; requesting a certificate from https:\/\/localhost:\d+\n/,
  );
  expect(env.err()).toMatch(
    /enrolled as https:\/\/fleet\.test\/d\/host%201\n.*delete the token file\n/,
  );
  const [call] = server.calls;
  expect(call).toMatchObject({
    path: "/v1/collector/enroll",
    authorization: `Bearer ${token}`,
    certificate: undefined,
    body: { device_id: "host 1", hostname: "host.test", platform: "linux/amd64" },
  });
  expect((await lstat(join(etc(), "identity"))).mode & 0o777).toBe(0o700);
  for (const name of ["tls.crt", "tls.key"])
    expect((await stat(current(name))).mode & 0o777).toBe(0o600);
  const { config, errors } = await loadWritten();
  expect(errors).toEqual([]);
  expect(config).toMatchObject({
    hostId: undefined,
    forwarder: { endpoint: "localhost:8443", mtls: { caFile: join(etc(), "core-ca.pem") } },
    buffer: { dir: join(etc(), "data") },
    management: { coreUrl: server.url, caFile: join(etc(), "core-ca.pem") },
  });
  expect(config?.forwarder.mtls.serverName).toBeUndefined();
  expect(config?.management.serverName).toBeUndefined();
});

it("reads the token from stdin, accepts a separate ingest bundle, and prints one object with --json", async () => {
  const other = await createTestCa({ name: "Ingest CA" });
  await writeFile(join(dir, "ingest.pem"), other.pem);
  const env = await succeeds(
    ["--token-stdin", "--json", "--ingest-ca-bundle", join(dir, "ingest.pem")],
    { stdin: `${token}\n` },
  );
  expect(JSON.parse(env.out())).toMatchObject({
    ok: true,
    identity: `${prefix}host%201`,
    identity_kept: false,
  });
  expect(await read(join(etc(), "ingest-ca.pem"))).toBe(other.pem);
});

it("E12: leaves the raw token in no file, output or error", async () => {
  const outputs = [(await enroll()).said];
  server.reply(() => refusal(401, "token_invalid"));
  outputs.push((await enroll(["--force"])).said);
  server.reply(() => "cut");
  outputs.push((await enroll(["--force", "--json"])).said);
  for (const args of [
    [token],
    ["--token", token],
    [`--token=${token}`],
    ["--frob", token],
    [`--${token}`],
    ["--token-file"],
  ])
    outputs.push((await enroll(args)).said);
  outputs.push(
    (await enroll(["--token-file", token])).said,
    (await enroll(["--force", "--device-id", "\n"])).said,
  );
  for (const output of outputs) expect(output).not.toContain(token.slice(6, 20));
  for (const path of await allFiles(etc()))
    expect(await readFile(path, "latin1")).not.toContain(token.slice(6, 20));
});

describe("a proxy", () => {
  const withProxy = async (options?: Parameters<typeof startConnectProxy>[0]) => {
    const proxy = await startConnectProxy(options);
    whenDone(() => proxy.close());
    return proxy;
  };

  it("is the way to core for the request, and by the config that is written", async () => {
    const proxy = await withProxy({ credentials: "user:a-password" });
    const credentialsFile = join(dir, "proxy-credentials");
    await writeFile(credentialsFile, "user:a-password", { mode: 0o600 });
    const flags = ["--proxy", proxy.url, "--no-proxy", "a.test, 10.0.0.0/8"];
    await fails(1, "demands credentials (HTTP 407): set proxy.credentials_file", flags);
    const env = await succeeds([...flags, "--proxy-credentials-file", credentialsFile]);
    expect(proxy.requests.at(-1)?.authority).toBe(`localhost:${server.port}`);
    expect((await loadWritten()).config?.proxy).toEqual({
      url: proxy.url,
      credentialsFile,
      noProxy: ["a.test", "10.0.0.0/8"],
      caFile: undefined,
    });
    expect(env.out() + env.err() + (await read(configFile()))).not.toContain("a-password");
  });

  it("of the environment is used with --proxy environment alone, and named otherwise", async () => {
    const proxy = await withProxy();
    const variables = { HTTPS_PROXY: proxy.url };
    const env = await succeeds([], { variables });
    expect(env.err()).toContain(
      "HTTPS_PROXY is set and not used: proxy is not configured; --proxy environment uses it",
    );
    expect(proxy.requests).toEqual([]);
    await succeeds(["--force", "--proxy", "environment"], { variables });
    expect(proxy.requests).toHaveLength(1);
    expect((await loadWritten()).config?.proxy).toBe("environment");
  });

  it("that shows a certificate in place of core's is named, and gets no token", async () => {
    const proxy = await withProxy();
    proxy.fail({ intercept: await createServerTls(await createTestCa()) });
    await fails(1, "answers for core with its own certificate", ["--proxy", proxy.url]);
    expect(server.calls).toEqual([]);
  });

  it("is a URL without credentials, or environment, and has no flags of its own otherwise", async () => {
    await fails(2, "without credentials and path", ["--proxy", "http://user:pass@proxy.test"]);
    await fails(2, "need a --proxy URL", ["--no-proxy", "a.test"]);
    await fails(2, "need a --proxy URL", ["--proxy", "environment", "--proxy-ca-file", "x"]);
  });
});

it("rejects a token as an argument with exit code 2, and sends nothing", async () => {
  await fails(2, "", [token]);
  await fails(2, "", ["--token", token]);
  expect(server.calls).toHaveLength(0);
});

it("names the fault of a token file that cannot be read, without its path", async () => {
  const { code, said } = await enroll(["--token-file", join(dir, "absent")]);
  expect([code, said]).toEqual([
    1,
    expect.stringContaining("the file of the token cannot be read (ENOENT)\n"),
  ]);
  expect(said).not.toContain(dir);
  expect(server.calls).toHaveLength(0);
});

it("sends a service account token, keeps the identity without one, and replaces an expired certificate by itself", async () => {
  await writeFile(tokenFile(), `${jwt}\n`);
  expect((await succeeds(projected())).err()).not.toContain("delete the token file");
  expect(server.calls[0]?.authorization).toBe(`Bearer ${jwt}`);
  await rm(tokenFile());
  expect((await succeeds(projected())).err()).toContain("the identity is kept");
  await writeFile(tokenFile(), jwt);
  await succeeds(projected(), { now: Date.UTC(2100, 0) });
  expect(server.calls).toHaveLength(2);
  for (const path of await allFiles(etc()))
    expect(await readFile(path, "latin1")).not.toContain(jwt);
});

it.each([
  [1, "a bootstrap token as another kind", token, projected],
  [1, "a token that is too long", `${jwt}${"x".repeat(4096)}`, projected],
  [1, "a private key", "-----BEGIN PRIVATE KEY-----", projected],
  [1, "a service account token as another kind", jwt, () => []],
  [1, "a private key as another kind", "-----BEGIN PRIVATE KEY-----", () => []],
  [2, "a token of two kinds", jwt, () => ["--token-file", tokenFile(), ...projected()]],
])("ends with %i for %s, and sends and says nothing of it", async (expected, _, text, flags) => {
  await writeFile(tokenFile(), text);
  const { code, said } = await enroll(flags());
  expect([code, said]).toEqual([expected, expect.not.stringContaining(text.slice(0, 20))]);
  expect(server.calls).toHaveLength(0);
});

it("refuses a data directory that is shared with others, before it uses the token", async () => {
  const shared = join(dir, "shared");
  await mkdir(shared);
  await chmod(shared, 0o1777);
  await fails(1, "shared with others", ["--data-dir", shared]);
  expect(server.calls).toHaveLength(0);
  expect((await stat(shared)).mode & 0o7777).toBe(0o1777);
});

it("repeats the request with the same key when the response is lost, in this run and in the next", async () => {
  server.reply((call) => (server.calls.length < 3 ? "cut" : issueFor(clientCa, call)));
  await succeeds();
  for (const at of [0, 1]) expect(csrKey(at)).toEqual(csrKey());

  await rm(etc(), { recursive: true });
  server.reply(() => "cut");
  await fails(1, "");
  const lost = csrKey();
  server.reply((call) => issueFor(clientCa, call));
  await succeeds();
  expect(csrKey()).toEqual(lost);
});

it("creates a new key for another identity", async () => {
  server.reply(() => refusal(403, "identity_not_allowed"));
  await enroll();
  await enroll(["--device-id", "host-2"]);
  expect(csrKey(0)).not.toEqual(csrKey(1));
});

it("keeps an existing identity and config without a request, and completes what a crash interrupted", async () => {
  await enroll();
  const before = await read(current("tls.crt"));
  await rm(configFile());
  expect((await succeeds()).err()).toContain("the identity is kept");
  expect(server.calls).toHaveLength(1);
  expect(await read(current("tls.crt"))).toBe(before);
  expect((await loadWritten()).errors).toEqual([]);
});

it("replaces another identity only with --force, and then with a new key", async () => {
  await enroll();
  await fails(1, "--force replaces it", ["--device-id", "host-2"]);
  expect(server.calls).toHaveLength(1);
  const before = await read(current("tls.key"));
  await succeeds(["--force", "--device-id", "host-2"]);
  expect(await read(current("tls.key"))).not.toBe(before);
  expect(await read(`${configFile()}.before-enroll`)).toContain("forwarder:");
});

it("reports that the existing certificate has expired, and replaces it with --reenroll", async () => {
  await enroll();
  await fails(1, "has expired; --reenroll", [], { now: Date.UTC(2100, 0) });
  await succeeds(["--reenroll"]);
});

it("reports that the existing credentials are damaged, and replaces them with --reenroll", async () => {
  await enroll();
  for (const damage of [() => writeFile(current("tls.key"), ""), () => rm(current("tls.crt"))]) {
    await damage();
    await fails(1, "are damaged, and are kept; --reenroll");
    await succeeds(["--reenroll"]);
    expect((await succeeds()).err()).toContain("the identity is kept");
  }
  expect(server.calls.length).toBe(3);
});

it("requests a new certificate with --reenroll for the same identity alone, and keeps the config", async () => {
  await enroll();
  await appendFile(configFile(), "# edited\n");
  const kept = await read(configFile());
  const before = [await read(current("tls.crt")), await read(current("tls.key"))];
  expect((await succeeds(["--reenroll"])).err()).toContain("the existing config is kept");
  expect(await read(configFile())).toBe(kept);
  expect(before).not.toContain(await read(current("tls.crt")));
  expect(before).not.toContain(await read(current("tls.key")));

  await fails(1, "under another identity", ["--reenroll", "--device-id", "host-2"]);
  await fails(2, "give one of them", ["--reenroll", "--force"]);
  expect(server.calls).toHaveLength(2);
});

it("makes the given authorities those of both channels with --reenroll, and forgets them with --force", async () => {
  await enroll();
  const [core, ingest] = await Promise.all([
    createTestCa({ name: "Next core CA" }),
    createTestCa({ name: "Next ingest CA" }),
  ]);
  await server.present(core);
  await writeFile(join(dir, "core.pem"), core.pem);
  await writeFile(join(dir, "ingest.pem"), ingest.pem);
  const given = [
    "--ca-bundle",
    join(dir, "core.pem"),
    "--ingest-ca-bundle",
    join(dir, "ingest.pem"),
  ];
  await succeeds(["--reenroll", ...given]);
  const namesOf = async () => {
    const { ingest, management } = describeTrust((await loadWritten()).trust);
    return [ingest, management].map((channel) => channel?.authorities.map(({ name }) => name));
  };
  expect(await namesOf()).toEqual([
    ["CN=Next ingest CA", "CN=Server CA"],
    ["CN=Next core CA", "CN=Server CA"],
  ]);
  await succeeds(["--force", ...given]);
  expect(await namesOf()).toEqual([["CN=Next ingest CA"], ["CN=Next core CA"]]);
});

it("says with --reenroll that pinned authorities are left to ca_file", async () => {
  await enroll();
  const text = await read(configFile());
  await writeFile(configFile(), text.replace("management:", "management:\n  ca_pinned: true"));
  expect((await succeeds(["--reenroll"])).err()).toContain(
    "next: management.ca_pinned is true: put",
  );
});

it("keeps an existing config, and fails with 78 if it is invalid", async () => {
  await mkdir(etc());
  await writeFile(configFile(), "nonsense: 1\n");
  await fails(78, "1:1 nonsense is not a known key");
  expect(await read(configFile())).toBe("nonsense: 1\n");
});

it("keeps a config that it cannot read, and uses no token", async () => {
  await mkdir(etc());
  await symlink("collector.yaml", configFile());
  await fails(1, "cannot be read, and is kept");
  expect(server.calls).toHaveLength(0);
  expect(await readlink(configFile())).toBe("collector.yaml");
});

it("R8: rejects a certificate for another key, for another name, or that its chain did not issue", async () => {
  const stranger = await createTestCa({ name: "Client CA" });
  const otherKey = await createTestKey();
  const wrong = [
    { key: otherKey },
    { uri: `${prefix}other` },
    { chainPem: stranger.pem },
    { chainPem: "" },
    {
      extensions: [
        new x509.SubjectAlternativeNameExtension([{ type: "url", value: `${prefix}host%201` }]),
      ],
    },
  ];
  for (const over of wrong) {
    server.reply((call) => issueFor(clientCa, call, over));
    await fails(1, "nothing was changed");
    await expect(lstat(join(etc(), "identity", "current"))).rejects.toThrow();
  }
});

it("enrolls for an agent that speaks OpAMP: its supervisor's config, and a timer that renews when it is due", async () => {
  const out = join(dir, "out");
  const flags = [
    "--agent",
    "opamp",
    "--out",
    out,
    "--core",
    server.url,
    "--ingest",
    "core.test:8443",
    "--token-file",
    tokenFile(),
    "--device-id",
    "host 1",
    "--identity-prefix",
    prefix,
    "--ca-bundle",
    join(dir, "ca.pem"),
  ];
  const env = createTestCollectorEnv({ effectiveUid: 0 });
  const enrolled = await runCommandLine(["enroll", ...flags], env);
  expect([enrolled, env.err()]).toEqual([0, expect.stringContaining("opampsupervisor --config")]);
  expect(server.calls).toMatchObject([{ body: { agent: "otelcol" } }]);
  const supervisor = parse(await read(join(out, "supervisor.yaml")));
  expect(supervisor).toMatchObject({
    server: {
      endpoint: "wss://core.test:8443/v1/opamp",
      tls: { ca_file: join(out, "core-ca.pem") },
    },
    capabilities: { accepts_remote_config: true, reports_health: true },
    agent: { executable: "/usr/bin/otelcol-contrib" },
  });
  const { cert_file, key_file } = supervisor.server.tls;
  expect((await stat(key_file)).mode & 0o777).toBe(0o600);
  expect((await stat(supervisor.storage.directory)).mode & 0o777).toBe(0o700);
  expect(await read(join(out, "svc-opamp-renew.service"))).toContain(
    `svc-collector renew --out ${out}\n`,
  );

  const renew = async (at: number) => {
    const renewing = createTestCollectorEnv({ effectiveUid: 0, now: at });
    const code = await runCommandLine(["renew", "--out", out], renewing);
    return [code, server.calls.length, renewing.err()];
  };
  const before = await read(cert_file);
  const renewAfter = Date.parse(
    String((await read(join(out, "identity/current/renew-after"))).trim()),
  );
  expect(await renew(renewAfter - 1)).toEqual([0, 1, expect.stringContaining("is not due before")]);
  expect(await renew(renewAfter)).toEqual([0, 2, expect.stringContaining("renewed")]);
  expect(await read(cert_file)).not.toBe(before);

  await fails(2, "--agent opamp needs --out", ["--agent", "opamp"]);
  await fails(2, "must be svc-collector or opamp", ["--agent", "alloy"]);
  await fails(2, "takes the place of --config-dir", ["--agent", "opamp", "--out", out]);
});

it("requires the exact root acknowledgement before it uses the token", async () => {
  await fails(78, "as root", [], { effectiveUid: 0 });
  await fails(78, "takes only", ["--allow-root-acknowledged", "yes"]);
  expect(server.calls).toHaveLength(0);
  const acknowledged = ["--allow-root-acknowledged", "I-UNDERSTAND-ROOT-MODE"];
  await succeeds(acknowledged, { effectiveUid: 0 });
});

it("follows no redirect, and trusts no server outside the bundle", async () => {
  server.reply(() => ({
    status: 307,
    body: {},
    headers: { location: `${server.url}/elsewhere` },
  }));
  await fails(1, "redirect");
  expect(server.calls).toHaveLength(1);
  await writeFile(join(dir, "ca.pem"), clientCa.pem);
  await fails(1, "not trusted");
  expect(server.calls).toHaveLength(1);
});

it("allows plain HTTP only with its flag and to loopback, and then writes no management.core_url", async () => {
  const plain = createServer(async (request, response) => {
    let text = "";
    for await (const chunk of request) text += chunk;
    const tls = {
      authority: undefined,
      certificate: undefined,
      isResumed: false,
      clientPort: undefined,
    };
    const call = {
      path: request.url ?? "",
      httpVersion: "1.1",
      authorization: "",
      traceparent: undefined,
      ...tls,
    };
    const { status, body } = await issueFor(clientCa, { ...call, body: JSON.parse(text) });
    response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
  });
  const port = await listenOnLoopback(plain);
  const core = `http://127.0.0.1:${port}`;
  await fails(2, "needs --insecure-loopback-http", ["--core", core]);
  await fails(2, "or http:// on", ["--insecure-loopback-http", "--core", "http://192.0.2.1"]);
  await succeeds(["--insecure-loopback-http", "--core", core]);
  expect(await read(configFile())).not.toContain("management");
  await new Promise((resolve) => plain.close(resolve));
});

it("fails while another process changes the identity directory", async () => {
  server.reply(async (call) => {
    if (server.calls.length > 1) return issueFor(clientCa, call);
    await fails(1, "another process");
    return issueFor(clientCa, call);
  });
  await succeeds();
  expect(server.calls).toHaveLength(1);
});
