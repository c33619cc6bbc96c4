import { chmod, mkdir, rm, symlink, unlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, it } from "vitest";
import { systemEntropy } from "#kit/entropy.ts";
import { caChannels } from "#proto/management/ca-bundle.ts";
import { createTestKey, type TestName } from "#scripts/lab/ca/test-pki.ts";
import { createEnrolledHost, type EnrolledHost } from "#tests/collector/support/enrolled-host.ts";
import { replaceAuthorities, writeStoredBundle } from "../identity/take-bundle.ts";
import { isUsable, loadConfig } from "./load-config.ts";

const asUser = { effectiveUid: 1000 };
/** The places of a config's errors. */
const placesIn = async ({ config }: EnrolledHost, as = asUser) =>
  (await loadConfig(config, as)).errors.map(({ path }) => path);
const caFile = ({ dir }: EnrolledHost) => join(dir, "core-ca.pem");

it("accepts the config of an enrolled host, with paths from its directory and the identity from the certificate", async () => {
  const host = await createEnrolledHost();
  const loaded = await loadConfig(host.config, asUser);
  expect(loaded.errors).toEqual([]);
  expect(isUsable(loaded)).toBe(true);
  expect(loaded.config?.buffer.dir).toBe(join(host.dir, "data"));
  expect(loaded.credentials?.identity).toBe(host.identity);
});

/** Configures a proxy with files, which are valid unless given. */
const withProxyFiles = async (
  { dir, config, configText, ca }: EnrolledHost,
  given: { credentials?: string; mode?: number; ca?: string } = {},
) => {
  const { credentials = "user:pass:word\n", mode = 0o600 } = given;
  await writeFile(join(dir, "proxy-credentials"), credentials, { mode });
  await writeFile(join(dir, "proxy-ca.pem"), given.ca ?? ca.pem);
  const files = "credentials_file: proxy-credentials, ca_file: proxy-ca.pem";
  await writeFile(config, `${configText}proxy: {url: "https://proxy.test:3129", ${files}}\n`);
};

it("accepts a proxy with its files", async () => {
  const host = await createEnrolledHost();
  await withProxyFiles(host);
  const loaded = await loadConfig(host.config, asUser);
  expect(loaded.errors).toEqual([]);
  expect(loaded.config?.proxy).toEqual({
    url: "https://proxy.test:3129",
    credentialsFile: join(host.dir, "proxy-credentials"),
    noProxy: [],
    caFile: join(host.dir, "proxy-ca.pem"),
  });
});

it("C1: rejects files of a syslog source's TLS that are missing or open to others", async () => {
  const host = await createEnrolledHost();
  const { certFile: cert_file, keyFile: key_file } = host;
  const tls = { cert_file, key_file, client_ca_file: "core-ca.pem" };
  const sources = JSON.stringify([{ type: "syslog", tcp: { tls } }]);
  await writeFile(host.config, `${host.configText}sources: ${sources}\n`);
  const loaded = await loadConfig(host.config, asUser);
  expect(loaded.errors).toEqual([]);
  expect(loaded.config?.sources).toMatchObject([{ tcp: { tls: { clientCaFile: caFile(host) } } }]);
  await rm(caFile(host));
  await chmod(host.keyFile, 0o640);
  expect(await placesIn(host)).toEqual(
    expect.arrayContaining(["sources.0.tcp.tls.key_file", "sources.0.tcp.tls.client_ca_file"]),
  );
});

const keyPath = "forwarder.mtls.key_file";
const certPath = "forwarder.mtls.cert_file";
const caPath = "forwarder.mtls.ca_file";
const faults: [name: string, path: string, change: (host: EnrolledHost) => Promise<unknown>][] = [
  ["C1: a key that its group may read", keyPath, (host) => chmod(host.keyFile, 0o640)],
  ["C1: authorities that others may write", caPath, (host) => chmod(caFile(host), 0o666)],
  ["C1: authorities that their group may write", caPath, (host) => chmod(caFile(host), 0o664)],
  ["C1: a certificate that others may write", certPath, (host) => chmod(host.certFile, 0o646)],
  ["C1: a config that others may write", "", (host) => chmod(host.config, 0o646)],
  ["C1: a key that others may read", keyPath, (host) => chmod(host.keyFile, 0o604)],
  [
    "C1: a link to a key that others may read",
    keyPath,
    async (host) => {
      await writeFile(join(host.dir, "open.key"), host.key.pem, { mode: 0o644 });
      await unlink(host.keyFile);
      await symlink(join(host.dir, "open.key"), host.keyFile);
    },
  ],
  [
    "a directory in the key's place",
    keyPath,
    async (host) => {
      await unlink(host.keyFile);
      await mkdir(host.keyFile, { mode: 0o700 });
    },
  ],
  [
    "a key of another certificate",
    keyPath,
    async (host) => writeFile(host.keyFile, (await createTestKey()).pem),
  ],
  ["a malformed key", keyPath, (host) => writeFile(host.keyFile, "-----BEGIN nonsense")],
  ["a missing certificate", certPath, (host) => rm(host.certFile)],
  ["a malformed certificate", certPath, (host) => writeFile(host.certFile, "no")],
  ["a malformed authority", caPath, (host) => writeFile(caFile(host), "no")],
  ["a file in the queue's place", "buffer.dir", (host) => writeFile(join(host.dir, "data"), "")],
  [
    "another host_id",
    "host_id",
    (host) => writeFile(host.config, `${host.configText}host_id: ${host.identity}/`),
  ],
  [
    "C1: credentials of the proxy that others may read",
    "proxy.credentials_file",
    (host) => withProxyFiles(host, { credentials: "user:password", mode: 0o644 }),
  ],
  [
    "credentials of the proxy without a password",
    "proxy.credentials_file",
    (host) => withProxyFiles(host, { credentials: "user" }),
  ],
  [
    "malformed authorities of the proxy",
    "proxy.ca_file",
    (host) => withProxyFiles(host, { ca: "no" }),
  ],
  ["a missing file", "", (host) => rm(host.config)],
  ["a text that is not UTF-8", "", (host) => writeFile(host.config, Uint8Array.of(0xff, 0xfe))],
  ["a text over the size limit", "", (host) => writeFile(host.config, "#".repeat(300_000))],
];

it("rejects file patterns that can match only the collector's own files", async () => {
  const host = await createEnrolledHost();
  const include = ["logs/*.log", "data/*", join(host.dir, "*.yaml"), "/var/log/*"];
  await writeFile(
    host.config,
    `${host.configText}sources: [{type: file, include: ${JSON.stringify(include)}}]`,
  );
  const { errors } = await loadConfig(host.config, asUser);
  expect(errors.map(({ path }) => path)).toEqual(
    [0, 1, 2].map((index) => `sources.0.include.${index}`),
  );
  expect(errors[0]?.message).toBe(
    "must be outside the directories of the config, from which relative paths start, the identity and the buffer; `~` and variables are not expanded",
  );
});

it.each([
  ["start_pattern", "(a", false],
  ["end_pattern", "(?=a)", false],
  ["end_pattern", "(?:a{100}){9}(?:b{100}){9}", false],
  ["start_pattern", "^\\\\d{4}-", true],
])("compiles the %s %s of a file source: %s", async (key, pattern, isAccepted) => {
  const host = await createEnrolledHost();
  const text = `${host.configText}sources:\n  - type: file\n    include: [/a]\n    multiline:\n      ${key}: "${pattern}"\n`;
  await writeFile(host.config, text);
  const { errors } = await loadConfig(host.config, asUser);
  const error = {
    path: `sources.0.multiline.${key}`,
    line: text.split("\n").length - 1,
    column: 9 + key.length,
    message: "must be an RE2 expression of at most 1000 instructions",
  };
  expect(errors).toEqual(isAccepted ? [] : [error]);
});

it("reads the authorities before and after a broken one", async () => {
  const host = await createEnrolledHost();
  const block = (base64: string) =>
    `-----BEGIN CERTIFICATE-----\n${base64}\n-----END CERTIFICATE-----\n`;
  const own = host.ca.pem.trim();
  await writeFile(
    caFile(host),
    `${block("AAAA")}${own}\n${block("!")}-----BEGIN CERTIFICATE-----\n${own}\n`,
  );
  const { errors, trust } = await loadConfig(host.config, asUser);
  expect([errors, trust.ingest?.caFile.split(own).length]).toEqual([[], 3]);
});

/** A host that has taken a bundle of both channels. */
const withBundles = async (management: string) => {
  const host = await createEnrolledHost({ more: `management: {${management}}\n` });
  const { trust } = await loadConfig(host.config, asUser);
  const bundle = replaceAuthorities(trust.ingest ?? { caFile: "" }, host.ca.pem);
  for (const channel of caChannels)
    await writeStoredBundle(join(host.dir, "identity"), channel, bundle, {
      entropy: systemEntropy,
    });
  return { host, bundle };
};

it("reads the CA bundle of each channel with its ca_file: the authorities of the system have none", async () => {
  const { host, bundle } = await withBundles("ca_file: core-ca.pem");
  const { trust } = await loadConfig(host.config, asUser);
  expect([trust.ingest?.bundle, trust.management?.bundle]).toEqual([bundle, bundle]);
  const { host: other } = await withBundles("core_url: https://core.test");
  const { trust: found } = await loadConfig(other.config, asUser);
  expect(Object.keys(found)).toEqual(["ingest"]);
  expect(found.ingest).toHaveProperty("bundle");
});

it("accepts a CA bundle that does not count, and says why", async () => {
  const { host } = await withBundles("ca_file: core-ca.pem");
  await chmod(join(host.dir, "identity", "ca", "ingest.json"), 0o666);
  const loaded = await loadConfig(host.config, asUser);
  expect(isUsable(loaded)).toBe(true);
  expect(loaded.trust.ingest).toEqual({
    caFile: expect.any(String),
    fault: expect.stringContaining("may be written by"),
  });
});

it("reads no CA bundle where the config pins its authorities, or its files are laid out by hand", async () => {
  const { host } = await withBundles("ca_file: core-ca.pem, ca_pinned: true");
  const byHand = await withBundles("ca_file: core-ca.pem");
  const { config, configText, dir } = byHand.host;
  await symlink(join(dir, "identity", "pairs", "first"), join(dir, "identity", "live"));
  await writeFile(config, configText.replaceAll("identity/current", "identity/live"));
  for (const path of [host.config, config]) {
    const { errors, trust } = await loadConfig(path, asUser);
    expect([errors, Object.keys(trust)]).toEqual([[], ["ingest", "management"]]);
    for (const channel of caChannels) expect(Object.keys(trust[channel] ?? {})).toEqual(["caFile"]);
  }
});

it.each(faults)("rejects %s at %j, and names no file", async (_name, path, change) => {
  const host = await createEnrolledHost();
  await change(host);
  const { errors } = await loadConfig(host.config, asUser);
  expect(errors.map((error) => error.path)).toEqual([path]);
  expect(JSON.stringify(errors)).not.toContain(host.dir);
});

it.each<[string, TestName[]]>([
  ["no name", []],
  [
    "two names",
    [
      { type: "url", value: "https://a.test/" },
      { type: "dns", value: "b.test" },
    ],
  ],
  ["an address for a name", [{ type: "ip", value: "127.0.0.1" }]],
])("rejects a certificate with %s", async (_name, names) => {
  const host = await createEnrolledHost({ names });
  expect(await placesIn(host)).toEqual([certPath]);
});

it("accepts a DNS name, and a host_id that equals it", async () => {
  const host = await createEnrolledHost({
    names: [{ type: "dns", value: "host.test" }],
    more: "host_id: host.test\n",
  });
  expect(await placesIn(host)).toEqual([]);
});

it("requires the acknowledgement when it runs as root, and only then", async () => {
  const host = await createEnrolledHost();
  const asRoot = { effectiveUid: 0 };
  expect(await placesIn(host, asRoot)).toEqual(["run_as_root_acknowledged"]);
  const acknowledgement = "run_as_root_acknowledged: I-UNDERSTAND-ROOT-MODE\n";
  await writeFile(host.config, host.configText + acknowledgement);
  expect(await placesIn(host, asRoot)).toEqual([]);
  expect(await placesIn(host)).toEqual([]);
});
