import { X509Certificate } from "node:crypto";
import { readdir, readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createSecureContext } from "node:tls";
import { beforeEach, expect, it } from "vitest";
import { readKeyFile } from "#functions/node/config-files.ts";
import { identityOfCertificate } from "#proto/identity.ts";
import { createTestClock } from "#tests/fakes/clock.ts";
import { createSeededEntropy } from "#tests/fakes/entropy.ts";
import { newFolder } from "#tests/support/new-folder.ts";
import { issueClient } from "./issue-client.ts";
import { createLabPki, labPkiIn } from "./pki.ts";

let parent: string;
let dir: string;
const clock = createTestClock();
const entropy = createSeededEntropy();
const readCertificate = async (file: string) => new X509Certificate(await readFile(file));
const issue = (identity: string) =>
  issueClient({ dir, identity, lifetimeSeconds: 86_400, clock, entropy });

beforeEach(() => {
  parent = newFolder();
  dir = join(parent, "lab");
});

it("creates server certificates for names and addresses of the lab, signed by the server CA", async () => {
  const lab = await createLabPki({
    dir,
    clock,
    serverNames: ["localhost", "127.0.0.1", "core.lab.test"],
  });
  const serverCa = await readCertificate(lab.serverCaFile);
  const enrollmentCa = await readCertificate(lab.enrollmentCa.certFile);
  for (const { certFile, keyFile } of [lab.edge, lab.ingest]) {
    const certificate = await readCertificate(certFile);
    expect(certificate.verify(serverCa.publicKey)).toBe(true);
    expect(certificate.verify(enrollmentCa.publicKey)).toBe(false);
    expect(certificate.checkHost("localhost")).toBe("localhost");
    expect(certificate.checkHost("core.lab.test")).toBe("core.lab.test");
    expect(certificate.checkIP("127.0.0.1")).toBe("127.0.0.1");
    expect(certificate.keyUsage).toEqual(["1.3.6.1.5.5.7.3.1"]);
    const { validFromDate, validToDate } = certificate;
    // Browsers count from not_before, which is a minute before the lab was made.
    expect(validFromDate.getTime()).toBeLessThan(clock.now());
    expect(validToDate.getTime() - validFromDate.getTime()).toBe(397 * 86_400_000);
    createSecureContext({ cert: await readFile(certFile), key: readKeyFile(keyFile) });
  }
});

it("C1: closes every key to group and world, and discards the key of the server CA", async () => {
  await createLabPki({ dir, clock });
  await issue("https://fleet.test/d/1");
  const names = await readdir(parent, { recursive: true });
  const keys = names.filter((name) => name.endsWith(".key"));
  expect(keys.sort()).toEqual([
    "lab/clients/https___fleet.test_d_1/tls.key",
    "lab/edge.key",
    "lab/enrollment-ca.key",
    "lab/ingest.key",
  ]);
  for (const name of keys) expect((await stat(join(parent, name))).mode & 0o777).toBe(0o600);
  expect((await stat(dir)).mode & 0o777).toBe(0o700);
});

it("keeps an existing lab, and rejects a directory that holds anything else", async () => {
  const first = await createLabPki({ dir, clock });
  const key = await readFile(first.enrollmentCa.keyFile, "utf8");
  expect(await createLabPki({ dir, clock })).toEqual({ ...labPkiIn(dir), created: false });
  expect(await readFile(first.enrollmentCa.keyFile, "utf8")).toBe(key);

  await writeFile(join(parent, "notes.txt"), "mine");
  await expect(createLabPki({ dir: parent, clock })).rejects.toThrow("could not be put in place");
  expect((await readdir(parent)).sort()).toEqual(["lab", "notes.txt"]);
});

it("provisions a client certificate in core's profile, once for an identity", async () => {
  const lab = await createLabPki({ dir, clock });
  const client = await issue("https://fleet.test/d/1");
  const pem = await readFile(client.certFile, "utf8");
  const certificate = new X509Certificate(pem);
  expect(identityOfCertificate(certificate.raw)).toMatchObject({
    ok: true,
    identity: "https://fleet.test/d/1",
  });
  expect(certificate.keyUsage).toEqual(["1.3.6.1.5.5.7.3.2"]);
  expect(certificate.verify((await readCertificate(lab.enrollmentCa.certFile)).publicKey)).toBe(
    true,
  );
  expect(certificate.validToDate.getTime()).toBe(clock.now() + 86_400_000);

  await expect(issue("https://fleet.test/d/1")).rejects.toThrow("already");
  expect(await readFile(client.certFile, "utf8")).toBe(pem);
  for (const identity of [
    "not a uri",
    "https://fleet.test/\n",
    "",
    `https://fleet.test/${"x".repeat(253)}`,
  ])
    await expect(issue(identity)).rejects.toThrow("must be an absolute URI");
});
