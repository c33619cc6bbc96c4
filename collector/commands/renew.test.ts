import { readdir, readFile, readlink, rename, symlink, unlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { decodePem } from "#proto/pem.ts";
import { createTestCa, createTestKey, x509 } from "#scripts/lab/ca/test-pki.ts";
import { endedWith, runCollector } from "#tests/collector/support/collector-command.ts";
import { createEnrolledHost, type EnrolledHost } from "#tests/collector/support/enrolled-host.ts";
import { createTestCollectorEnv } from "#tests/fakes/collector-env.ts";
import {
  issueFor,
  type ManagementServer,
  refusal,
  startManagementServer,
} from "#tests/fakes/management-server.ts";
import { loadConfig } from "../config/load-config.ts";
import { openIdentityDirectory } from "../identity/identity-directory.ts";

let server: ManagementServer;
let host: EnrolledHost;

const setUp = async (http2 = false) => {
  server = await startManagementServer({ http2 });
  host = await createEnrolledHost({
    caPem: server.caPem,
    more: `management: {core_url: "${server.url}", ca_file: core-ca.pem}\n`,
  });
  server.reply((call) => issueFor(host.ca, call));
};
beforeEach(() => setUp());
afterEach(() => server.close());

const renew = (...more: string[]) => runCollector(["renew", "--config", host.config, ...more]);
const pairInUse = async () => ({
  certificate: await readFile(host.certFile, "utf8"),
  key: await readFile(host.keyFile, "utf8"),
});
const isValid = async () =>
  (await loadConfig(host.config, { effectiveUid: 1000 })).errors.length === 0;

it("presents and signs with the current credentials, and installs a fresh key with its certificate", async () => {
  const before = await pairInUse();
  expect(await renew()).toMatchObject(endedWith(0, "renewed; the new certificate"));
  const after = await pairInUse();
  expect(after.key).not.toBe(before.key);
  expect(after.certificate).not.toBe(before.certificate);
  expect(await isValid()).toBe(true);
  const [call] = server.calls;
  expect(call?.path).toBe("/v1/collector/renew");
  expect(call?.certificate).toEqual(decodePem(before.certificate, "CERTIFICATE"));
  expect(call?.body).toMatchObject({
    sent_at: "2026-06-01T12:00:00.000Z",
    proof: expect.any(String),
  });
  expect(await readdir(join(host.dir, "identity", "pairs"))).toHaveLength(2);
});

it("renews repeatedly, keeps two sets of credentials, and never repeats a sent_at", async () => {
  for (let round = 0; round < 3; round++) expect((await renew()).code).toBe(0);
  expect(await readdir(join(host.dir, "identity", "pairs"))).toHaveLength(2);
  expect(new Set(server.calls.map(({ body }) => body.sent_at)).size).toBe(3);
  expect(await isValid()).toBe(true);
});

it("renews over HTTP/2 alone, as at core's ingest listener", async () => {
  await server.close();
  await setUp(true);
  expect(
    (await renew("--core", server.url, "--ca-bundle", join(host.dir, "core-ca.pem"))).code,
  ).toBe(0);
  expect(server.calls[0]).toMatchObject({ httpVersion: "2.0", certificate: expect.anything() });
});

it("R8: keeps the old credentials when the new certificate has the wrong key, name, chain or purpose", async () => {
  const before = await pairInUse();
  const stranger = await createTestCa();
  const otherKey = await createTestKey();
  const wrong = [
    { key: otherKey },
    { uri: `${host.identity}0` },
    { chainPem: stranger.pem },
    {
      extensions: [
        new x509.SubjectAlternativeNameExtension([{ type: "url", value: host.identity }]),
      ],
    },
  ];
  for (const over of wrong) {
    server.reply((call) => issueFor(host.ca, call, over));
    expect(await renew()).toMatchObject(endedWith(1, "nothing was changed"));
    expect(await pairInUse()).toEqual(before);
    expect(await isValid()).toBe(true);
  }
});

it("R1: repeats the request with the same key after a lost response, also in the next run", async () => {
  server.reply(() => "cut");
  expect((await renew()).code).toBe(1);
  server.reply((call) => issueFor(host.ca, call));
  expect((await renew()).code).toBe(0);
  const keys = server.calls.map(({ body }) =>
    new x509.Pkcs10CertificateRequest(String(body.csr_pem)).publicKey.toString(),
  );
  expect(keys).toHaveLength(4);
  expect(new Set(keys).size).toBe(1);
});

it("prints core's reason and advice, and changes nothing", async () => {
  const before = await pairInUse();
  server.reply(() => refusal(403, "identity_revoked", { action: "stop" }));
  const { code, out } = await renew("--json");
  expect(code).toBe(1);
  expect(JSON.parse(out)).toEqual({
    ok: false,
    error: {
      code: "identity_revoked",
      message: expect.stringContaining("contact the operator of core"),
      details: [],
    },
  });
  expect(await pairInUse()).toEqual(before);
});

it("continues above core's last sent_at after stale_request", async () => {
  server.reply(() => refusal(409, "stale_request", { last_sent_at: "2026-06-01T12:01:00.000Z" }));
  expect((await renew()).code).toBe(1);
  expect(server.calls.map(({ body }) => body.sent_at)).toEqual([
    "2026-06-01T12:00:00.000Z",
    "2026-06-01T12:01:00.001Z",
  ]);
});

it("fails while another process changes the same identity directory", async () => {
  const directory = openIdentityDirectory(join(host.dir, "identity"), createTestCollectorEnv());
  await directory.locked(async () => {
    expect(await renew()).toMatchObject(endedWith(1, "another process"));
  });
  expect(server.calls).toHaveLength(0);
});

it("rolls back when the config does not validate with the new credentials", async () => {
  const before = await pairInUse();
  const current = join(host.dir, "identity", "current");
  const target = await readlink(current);
  // The config becomes invalid while core signs.
  server.reply(async (call) => {
    await rename(join(host.dir, "core-ca.pem"), join(host.dir, "moved.pem"));
    return issueFor(host.ca, call);
  });
  expect((await renew()).code).toBe(78);
  expect(await readlink(current)).toBe(target);
  expect(await pairInUse()).toEqual(before);
});

it("rejects a layout in which certificate and key cannot change in one step", async () => {
  const current = join(host.dir, "identity", "current");
  await unlink(current);
  await symlink("pairs/first", join(host.dir, "identity", "live"));
  await writeFile(host.config, host.configText.replaceAll("identity/current", "identity/live"));
  expect(await renew()).toMatchObject(endedWith(1, "as enroll lays it out"));
  expect(server.calls).toHaveLength(0);
});
