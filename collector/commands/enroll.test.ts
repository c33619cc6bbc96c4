import { createHash } from "node:crypto";
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
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { createTestCa, createTestKey, type TestCa, x509 } from "#scripts/lab/ca/test-pki.ts";
import { createTestCollectorEnv } from "#tests/fakes/collector-env.ts";
import {
  issueFor,
  type ManagementServer,
  refusal,
  startManagementServer,
} from "#tests/fakes/management-server.ts";
import { newFolder } from "#tests/support/new-folder.ts";
import { loadConfig } from "../config/load-config.ts";
import { runCommandLine } from "./command-line.ts";

const token = `svcbt_${"A1b2C3d4E5".repeat(5).slice(0, 49)}`;
const prefix = "https://fleet.test/d/";

let dir: string;
let server: ManagementServer;
let clientCa: TestCa;

beforeEach(async () => {
  dir = newFolder();
  server = await startManagementServer();
  clientCa = await createTestCa({ name: "Client CA" });
  await writeFile(join(dir, "token"), `${token}\n`);
  await writeFile(join(dir, "ca.pem"), server.caPem);
  server.reply((call) => issueFor(clientCa, call));
});
afterEach(() => server.close());

const etc = () => join(dir, "etc");
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
      ...(more.includes("--token-stdin") ? [] : given("--token-file", join(dir, "token"))),
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

const csrKey = (body: Record<string, unknown>) =>
  createHash("sha256")
    .update(
      new Uint8Array(new x509.Pkcs10CertificateRequest(String(body.csr_pem)).publicKey.rawData),
    )
    .digest("hex");

const allFiles = async (path: string) => {
  const entries = await readdir(path, { withFileTypes: true, recursive: true });
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));
};

it("writes private credentials, bundles and a valid config, and prints the next steps", async () => {
  const { code, env } = await enroll();
  expect(env.err()).toMatch(
    /^svc-collector enroll: created a key on this host; requesting a certificate from https:\/\/localhost:\d+\n/,
  );
  expect(env.err()).toMatch(
    /enrolled as https:\/\/fleet\.test\/d\/host%201\n.*delete the token file\n/,
  );
  expect(code).toBe(0);
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
  const loaded = await loadConfig(join(etc(), "collector.yaml"), { effectiveUid: 1000 });
  expect(loaded.errors).toEqual([]);
  const { config } = loaded;
  expect([config?.forwarder.mtls.serverName, config?.management?.serverName]).toEqual([
    undefined,
    undefined,
  ]);
  expect(config).toMatchObject({
    hostId: undefined,
    forwarder: {
      endpoint: "localhost:8443",
      mtls: { caFile: join(etc(), "core-ca.pem") },
    },
    buffer: { dir: join(etc(), "data") },
    management: {
      coreUrl: server.url,
      caFile: join(etc(), "core-ca.pem"),
    },
  });
  expect(loaded.config?.forwarder.mtls.serverName).toBeUndefined();
  expect(loaded.config?.management.serverName).toBeUndefined();
});

it("reads the token from stdin, accepts a separate ingest bundle, and prints one object with --json", async () => {
  const other = await createTestCa({ name: "Ingest CA" });
  await writeFile(join(dir, "ingest.pem"), other.pem);
  const { code, env } = await enroll(
    ["--token-stdin", "--json", "--ingest-ca-bundle", join(dir, "ingest.pem")],
    {
      stdin: `${token}\n`,
    },
  );
  expect(code).toBe(0);
  expect(JSON.parse(env.out())).toMatchObject({
    ok: true,
    identity: `${prefix}host%201`,
    identity_kept: false,
  });
  expect(await readFile(join(etc(), "ingest-ca.pem"), "utf8")).toBe(other.pem);
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

it("rejects a token as an argument with exit code 2, and sends nothing", async () => {
  expect((await enroll([token])).code).toBe(2);
  expect((await enroll(["--token", token])).code).toBe(2);
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

it("does not send a text that is not a bootstrap token", async () => {
  await writeFile(join(dir, "token"), "-----BEGIN PRIVATE KEY-----");
  const { code, said } = await enroll();
  expect([code, said.includes("PRIVATE")]).toEqual([1, false]);
  expect(server.calls).toHaveLength(0);
});

it("refuses a data directory that is shared with others, before it uses the token", async () => {
  const shared = join(dir, "shared");
  await mkdir(shared);
  await chmod(shared, 0o1777);
  const { code, said } = await enroll(["--data-dir", shared]);
  expect([code, server.calls.length]).toEqual([1, 0]);
  expect(said).toContain("shared with others");
  expect((await stat(shared)).mode & 0o7777).toBe(0o1777);
});

it("repeats the request with the same key when the response is lost, in this run and in the next", async () => {
  server.reply((call) => (server.calls.length < 3 ? "cut" : issueFor(clientCa, call)));
  expect((await enroll()).code).toBe(0);
  expect(new Set(server.calls.map(({ body }) => csrKey(body))).size).toBe(1);

  await rm(etc(), { recursive: true });
  server.reply(() => "cut");
  expect((await enroll()).code).toBe(1);
  const lost = csrKey(server.calls.at(-1)?.body ?? {});
  server.reply((call) => issueFor(clientCa, call));
  expect((await enroll()).code).toBe(0);
  expect(csrKey(server.calls.at(-1)?.body ?? {})).toBe(lost);
});

it("creates a new key for another identity", async () => {
  server.reply(() => refusal(403, "identity_not_allowed"));
  await enroll();
  await enroll(["--device-id", "host-2"]);
  const [first, second] = server.calls;
  expect(csrKey(first?.body ?? {})).not.toBe(csrKey(second?.body ?? {}));
});

it("keeps an existing identity and config without a request, and completes what a crash interrupted", async () => {
  await enroll();
  const before = await readFile(current("tls.crt"), "utf8");
  await rm(join(etc(), "collector.yaml"));
  const again = await enroll();
  expect([again.code, server.calls.length]).toEqual([0, 1]);
  expect(again.env.err()).toContain("the identity is kept");
  expect(await readFile(current("tls.crt"), "utf8")).toBe(before);
  expect((await loadConfig(join(etc(), "collector.yaml"), { effectiveUid: 1000 })).errors).toEqual(
    [],
  );
});

it("replaces another identity only with --force, and then with a new key", async () => {
  await enroll();
  const refused = await enroll(["--device-id", "host-2"]);
  expect([refused.code, server.calls.length]).toEqual([1, 1]);
  const before = await readFile(current("tls.key"), "utf8");
  expect((await enroll(["--force", "--device-id", "host-2"])).code).toBe(0);
  expect(await readFile(current("tls.key"), "utf8")).not.toBe(before);
  expect(await readFile(join(etc(), "collector.yaml.before-enroll"), "utf8")).toContain(
    "forwarder:",
  );
});

it("reports that the existing certificate has expired, and replaces it with --reenroll", async () => {
  await enroll();
  const { code, env } = await enroll([], { now: Date.UTC(2100, 0) });
  expect([code, env.err()]).toEqual([1, expect.stringContaining("has expired; --reenroll")]);
  expect((await enroll(["--reenroll"])).code).toBe(0);
});

it("reports that the existing credentials are damaged, and replaces them with --reenroll", async () => {
  await enroll();
  for (const damage of [() => writeFile(current("tls.key"), ""), () => rm(current("tls.crt"))]) {
    await damage();
    const { code, env } = await enroll();
    expect([code, env.err()]).toEqual([
      1,
      expect.stringContaining("are damaged, and are kept; --reenroll"),
    ]);
    expect((await enroll(["--reenroll"])).code).toBe(0);
    expect((await enroll()).env.err()).toContain("the identity is kept");
  }
  expect(server.calls.length).toBe(3);
});

it("requests a new certificate with --reenroll for the same identity alone, and keeps the config", async () => {
  await enroll();
  const config = join(etc(), "collector.yaml");
  await appendFile(config, "# edited\n");
  const kept = await readFile(config, "utf8");
  const before = await readFile(current("tls.crt"), "utf8");
  const key = await readFile(current("tls.key"), "utf8");
  const { code, env } = await enroll(["--reenroll"]);
  expect([code, server.calls.length]).toEqual([0, 2]);
  expect(env.err()).toContain("the existing config is kept");
  expect(await readFile(config, "utf8")).toBe(kept);
  expect(await readFile(current("tls.crt"), "utf8")).not.toBe(before);
  expect(await readFile(current("tls.key"), "utf8")).not.toBe(key);

  const other = await enroll(["--reenroll", "--device-id", "host-2"]);
  expect([other.code, other.env.err()]).toEqual([
    1,
    expect.stringContaining("under another identity"),
  ]);
  const both = await enroll(["--reenroll", "--force"]);
  expect([both.code, both.env.err()]).toEqual([2, expect.stringContaining("give one of them")]);
  expect(server.calls.length).toBe(2);
});

it("keeps an existing config, and fails with 78 if it is invalid", async () => {
  await mkdir(etc());
  await writeFile(join(etc(), "collector.yaml"), "nonsense: 1\n");
  const { code, env } = await enroll();
  expect(code).toBe(78);
  expect(env.err()).toContain("1:1 nonsense is not a known key");
  expect(await readFile(join(etc(), "collector.yaml"), "utf8")).toBe("nonsense: 1\n");
});

it("keeps a config that it cannot read, and uses no token", async () => {
  await mkdir(etc());
  await symlink("collector.yaml", join(etc(), "collector.yaml"));
  const { code, env } = await enroll();
  expect([code, env.err(), server.calls.length]).toEqual([
    1,
    expect.stringContaining("cannot be read, and is kept"),
    0,
  ]);
  expect(await readlink(join(etc(), "collector.yaml"))).toBe("collector.yaml");
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
    const { code, env } = await enroll();
    expect([code, env.err()]).toEqual([1, expect.stringContaining("nothing was changed")]);
    await expect(lstat(join(etc(), "identity", "current"))).rejects.toThrow();
  }
});

it("requires the exact root acknowledgement before it uses the token", async () => {
  expect((await enroll([], { effectiveUid: 0 })).code).toBe(78);
  expect((await enroll(["--allow-root-acknowledged", "yes"])).code).toBe(78);
  expect(server.calls).toHaveLength(0);
  expect(
    (await enroll(["--allow-root-acknowledged", "I-UNDERSTAND-ROOT-MODE"], { effectiveUid: 0 }))
      .code,
  ).toBe(0);
});

it("follows no redirect, and trusts no server outside the bundle", async () => {
  server.reply(() => ({
    status: 307,
    body: {},
    headers: { location: `${server.url}/elsewhere` },
  }));
  expect((await enroll()).env.err()).toContain("redirect");
  expect(server.calls).toHaveLength(1);
  await writeFile(join(dir, "ca.pem"), clientCa.pem);
  expect((await enroll()).env.err()).toContain("not trusted");
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
  await new Promise<void>((resolve) => plain.listen(0, "127.0.0.1", resolve));
  const core = `http://127.0.0.1:${(plain.address() as AddressInfo).port}`;
  expect((await enroll(["--core", core])).code).toBe(2);
  expect((await enroll(["--insecure-loopback-http", "--core", "http://192.0.2.1"])).code).toBe(2);
  expect((await enroll(["--insecure-loopback-http", "--core", core])).code).toBe(0);
  expect(await readFile(join(etc(), "collector.yaml"), "utf8")).not.toContain("management");
  await new Promise((resolve) => plain.close(resolve));
});

it("fails while another process changes the identity directory", async () => {
  server.reply(async (call) => {
    if (server.calls.length > 1) return issueFor(clientCa, call);
    const other = await enroll();
    expect([other.code, other.env.err()]).toEqual([1, expect.stringContaining("another process")]);
    return issueFor(clientCa, call);
  });
  expect((await enroll()).code).toBe(0);
  expect(server.calls).toHaveLength(1);
});
