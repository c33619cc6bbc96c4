import { chmodSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, expect, it } from "vitest";
import { systemClock } from "#kit/clock.ts";
import { createTestCa, createTestKey, type TestCa } from "#scripts/lab/ca/test-pki.ts";
import { newFolder } from "#tests/support/new-folder.ts";
import { signerLoader } from "./follow-files.ts";
import { createNodeCryptography } from "./node-cryptography.ts";

const dir = newFolder();
let ca: TestCa;
beforeAll(async () => {
  ca = await createTestCa();
});

const load = async (certificate: string, key: string, mode = 0o600) => {
  const config = {
    kind: "local-ca",
    caCertFile: join(dir, "ca.pem"),
    caKeyFile: join(dir, "ca.key"),
  } as const;
  writeFileSync(config.caCertFile, certificate);
  writeFileSync(config.caKeyFile, key);
  chmodSync(config.caKeyFile, mode);
  const needs = { cryptography: createNodeCryptography(), clock: systemClock, log: console };
  return (await signerLoader(config, needs))();
};

it("loads a CA and its key, also with other authorities in the file", async () => {
  const other = await createTestCa({ name: "Other" });
  expect((await load(ca.pem, ca.key.pem)).authorities).toHaveLength(1);
  expect((await load(other.pem + ca.pem, ca.key.pem)).authorities).toHaveLength(2);
});

it("C1: rejects a key that others may read", async () => {
  await expect(load(ca.pem, ca.key.pem, 0o640)).rejects.toThrow("open to group or world");
});

it("C2: rejects a mismatch, a weak or foreign key and text that is no key, and quotes none of it", async () => {
  await expect(load(ca.pem, (await createTestKey()).pem)).rejects.toThrow("matches no certificate");
  await expect(load(ca.pem, (await createTestKey("rsa1024")).pem)).rejects.toThrow(
    "at least 2048 bits",
  );
  await expect(load(ca.pem, (await createTestKey("p521")).pem)).rejects.toThrow(
    "must be ECDSA P-256 or P-384",
  );
  await expect(load(ca.pem, "hunter2")).rejects.toThrow(
    /_KEY_FILE: not an unencrypted private key in PEM$/,
  );
  await expect(load("hunter2", ca.key.pem)).rejects.toThrow(
    /_CERT_FILE: the CA file holds no certificate$/,
  );
});
