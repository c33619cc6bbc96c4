import { chmod, mkdir, rm, symlink, unlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, it } from "vitest";
import { createTestKey, type TestName } from "#scripts/lab/ca/test-pki.ts";
import { createEnrolledHost, type EnrolledHost } from "#tests/support/enrolled-host.ts";
import { isUsable, loadConfig } from "./load-config.ts";

const asUser = { effectiveUid: 1000 };

it("accepts the config of an enrolled host, with paths from its directory and the identity from the certificate", async () => {
  const host = await createEnrolledHost();
  const loaded = await loadConfig(host.config, asUser);
  expect(loaded.errors).toEqual([]);
  expect(isUsable(loaded)).toBe(true);
  expect(loaded.config?.buffer.dir).toBe(join(host.dir, "data"));
  expect(loaded.credentials?.identity).toBe(host.identity);
});

const faults: [name: string, path: string, change: (host: EnrolledHost) => Promise<unknown>][] = [
  [
    "C1: a key that its group may read",
    "forwarder.mtls.key_file",
    (host) => chmod(host.keyFile, 0o640),
  ],
  [
    "C1: authorities that others may write",
    "forwarder.mtls.ca_file",
    (host) => chmod(join(host.dir, "core-ca.pem"), 0o666),
  ],
  [
    "C1: authorities that their group may write",
    "forwarder.mtls.ca_file",
    (host) => chmod(join(host.dir, "core-ca.pem"), 0o664),
  ],
  [
    "C1: a certificate that others may write",
    "forwarder.mtls.cert_file",
    (host) => chmod(host.certFile, 0o646),
  ],
  ["C1: a config that others may write", "", (host) => chmod(host.config, 0o646)],
  [
    "C1: a key that others may read",
    "forwarder.mtls.key_file",
    (host) => chmod(host.keyFile, 0o604),
  ],
  [
    "C1: a link to a key that others may read",
    "forwarder.mtls.key_file",
    async (host) => {
      await writeFile(join(host.dir, "open.key"), host.key.pem, { mode: 0o644 });
      await unlink(host.keyFile);
      await symlink(join(host.dir, "open.key"), host.keyFile);
    },
  ],
  [
    "a directory in the key's place",
    "forwarder.mtls.key_file",
    async (host) => {
      await unlink(host.keyFile);
      await mkdir(host.keyFile, { mode: 0o700 });
    },
  ],
  [
    "a key of another certificate",
    "forwarder.mtls.key_file",
    async (host) => writeFile(host.keyFile, (await createTestKey()).pem),
  ],
  [
    "a malformed key",
    "forwarder.mtls.key_file",
    (host) => writeFile(host.keyFile, "-----BEGIN nonsense"),
  ],
  ["a missing certificate", "forwarder.mtls.cert_file", (host) => rm(host.certFile)],
  ["a malformed certificate", "forwarder.mtls.cert_file", (host) => writeFile(host.certFile, "no")],
  [
    "a malformed authority",
    "forwarder.mtls.ca_file",
    (host) => writeFile(join(host.dir, "core-ca.pem"), "no"),
  ],
  ["a file in the queue's place", "buffer.dir", (host) => writeFile(join(host.dir, "data"), "")],
  [
    "another host_id",
    "host_id",
    (host) => writeFile(host.config, `${host.configText}host_id: ${host.identity}/`),
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
    "must be outside the directories of the config, the identity and the buffer",
  );
});

it("reads the authorities before and after a broken one", async () => {
  const host = await createEnrolledHost();
  const block = (base64: string) =>
    `-----BEGIN CERTIFICATE-----\n${base64}\n-----END CERTIFICATE-----\n`;
  const own = host.ca.pem.trim();
  await writeFile(
    join(host.dir, "core-ca.pem"),
    `${block("AAAA")}${own}\n${block("!")}-----BEGIN CERTIFICATE-----\n${own}\n`,
  );
  const { errors, ingestCaPem } = await loadConfig(host.config, asUser);
  expect([errors, ingestCaPem?.split(own).length]).toEqual([[], 3]);
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
  const { errors } = await loadConfig(host.config, asUser);
  expect(errors.map(({ path }) => path)).toEqual(["forwarder.mtls.cert_file"]);
});

it("accepts a DNS name, and a host_id that equals it", async () => {
  const host = await createEnrolledHost({
    names: [{ type: "dns", value: "host.test" }],
    more: "host_id: host.test\n",
  });
  expect((await loadConfig(host.config, asUser)).errors).toEqual([]);
});

it("requires the acknowledgement when it runs as root, and only then", async () => {
  const host = await createEnrolledHost();
  expect(
    (await loadConfig(host.config, { effectiveUid: 0 })).errors.map(({ path }) => path),
  ).toEqual(["run_as_root_acknowledged"]);
  await writeFile(
    host.config,
    `${host.configText}run_as_root_acknowledged: I-UNDERSTAND-ROOT-MODE\n`,
  );
  expect((await loadConfig(host.config, { effectiveUid: 0 })).errors).toEqual([]);
  expect((await loadConfig(host.config, asUser)).errors).toEqual([]);
});
