/*
 * Commands of the documents, run as they are printed: docs/chat.md, docs/chat-receipts.md, docs/collector-config.md, docs/deploy.md,
 * docs/enroll.md, docs/backup.md, docs/enroll.md. The programs are this repository's; absolute paths are those of a folder of the test.
 */
import { execFileSync } from "node:child_process";
import { createPrivateKey, X509Certificate } from "node:crypto";
import { chmodSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { createLabPki } from "#scripts/lab/ca/pki.ts";
import { createTestCa, createTestCsr, createTestKey } from "#scripts/lab/ca/test-pki.ts";
import { createTestReceiptKey, signChain } from "../support/chat/receipts.ts";
import { newFolder } from "../support/new-folder.ts";
import { programFile } from "../support/program.ts";
import { blockOf, createBlockRunner, replaceTexts } from "./support/documented-block.ts";

const dir = newFolder();
const run = createBlockRunner(dir);

const commandExists = (name: string) => {
  try {
    execFileSync(name, ["--version"], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
};

it("chat.md: make a key that signs receipts", () => {
  expect(run("docs/chat.md", "openssl genpkey")).toMatchObject({ status: 0 });
  expect(createPrivateKey(readFileSync(join(dir, "receipts.pem"))).asymmetricKeyType).toBe(
    "ed25519",
  );
  expect(statSync(join(dir, "receipts.pem")).mode & 0o777).toBe(0o600);
});

it("chat-receipts.md: verify a conversation with the keys of core", async () => {
  const signer = await createTestReceiptKey("receipts-2026");
  const turn = [
    {
      kind: "user_message",
      payload: { message_id: "q", content: "How many hosts are offline?" },
    },
    { kind: "answer", payload: { message_id: "m", provider: "mock", model: "m", text: "3" } },
    { kind: "closing", payload: { message_id: "m", status: "complete" } },
  ] as const;
  const file = await signChain("01920000-0000-7000-8000-0000000000c1", turn, signer);
  writeFileSync(join(dir, "receipts.json"), JSON.stringify(file));
  writeFileSync(join(dir, "receipt-keys.json"), JSON.stringify({ keys: [signer.key] }));
  const { status, stdout } = run("docs/chat-receipts.md", "svc-server verify-receipts");
  expect(status).toBe(0);
  expect(JSON.parse(stdout)).toMatchObject({ ok: true, keys: "given" });
});

it("enroll.md, collector-config.md: provision a certificate, and validate a config that uses it", () => {
  const provisioned = run("docs/enroll.md", "npx", { replacements: { DIR: "lab" } });
  expect(provisioned).toMatchObject({ status: 0 });
  const { client, enrollment_ca } = JSON.parse(provisioned.stdout);
  const verified = execFileSync("openssl", [
    "verify",
    "-CAfile",
    enrollment_ca.cert_file,
    client.cert_file,
  ]);
  expect(verified.toString()).toContain("OK");
  const config = {
    sources: [{ type: "otlp" }],
    forwarder: {
      endpoint: "core.example.com:8443",
      mtls: {
        cert_file: client.cert_file,
        key_file: client.key_file,
        ca_file: join(dir, "lab/server-ca.crt"),
      },
    },
    buffer: { dir: join(dir, "queue") },
    ...(process.getuid?.() === 0 ? { run_as_root_acknowledged: "I-UNDERSTAND-ROOT-MODE" } : {}),
  };
  writeFileSync(join(dir, "collector.yaml"), JSON.stringify(config));
  expect(run("docs/collector-config.md", "svc-collector validate-config")).toMatchObject({
    status: 0,
  });
  writeFileSync(join(dir, "collector.yaml"), JSON.stringify({ ...config, buffers: {} }));
  const refused = run("docs/collector-config.md", "svc-collector validate-config");
  expect(refused).toMatchObject({ status: 78 });
  expect(refused.stdout + refused.stderr).toMatch(/\d+:\d+ buffers/);
});

it("deploy.md: check the configuration of core, with its files", async () => {
  const etc = join(dir, "etc");
  await createLabPki({ dir: etc });
  const paths = {
    "/etc/svc": etc,
    "/opt/svc/dist/svc-server/main.mjs": programFile("functions/main.ts"),
  };
  writeFileSync(join(etc, "core.env"), replaceTexts(blockOf("docs/deploy.md", "PORT="), paths));
  writeFileSync(join(etc, "auth-token-secret"), `${"0".repeat(64)}\n`);
  writeFileSync(join(etc, "database-url"), "postgres://svc:PASSWORD@db.example.net:5432/svc");
  expect(
    run("docs/deploy.md", "node --env-file=/etc/svc/core.env", { replacements: paths }),
  ).toMatchObject({
    status: 0,
  });
  chmodSync(join(etc, "enrollment-ca.key"), 0o644);
  expect(
    run("docs/deploy.md", "node --env-file=/etc/svc/core.env", { replacements: paths }),
  ).toMatchObject({
    status: 78,
    stderr: expect.stringContaining("SVC_ENROLLMENT_CA_KEY_FILE: "),
  });
});

it.skipIf(!commandExists("jq"))(
  "backup.md: list the hosts that core does not know (needs jq)",
  () => {
    const hosts = [
      "https://fleet.example.com/d/b",
      "https://fleet.example.com/d/a",
      "https://fleet.example.com/d/b",
    ];
    const lines = [
      ...hosts.map((host_id) => ({
        msg: "connection rejected",
        reason: "certificate_unknown",
        host_id,
      })),
      {
        msg: "connection rejected",
        reason: "certificate_revoked",
        host_id: "https://fleet.example.com/d/c",
      },
      { msg: "request rejected", code: "certificate_unknown" },
    ];
    writeFileSync(join(dir, "core.log"), lines.map((line) => JSON.stringify(line)).join("\n"));
    const { status, stdout } = run("docs/backup.md", "grep -h");
    expect([status, stdout]).toEqual([
      0,
      "https://fleet.example.com/d/a\nhttps://fleet.example.com/d/b\n",
    ]);
  },
);

it.skipIf(!commandExists("jq"))("enroll.md: sign a request with openssl (needs jq)", async () => {
  const ca = await createTestCa({ notAfter: new Date("2050-01-01") });
  const csr = await createTestCsr({ key: await createTestKey() });
  writeFileSync(join(dir, "ca.pem"), ca.pem);
  writeFileSync(join(dir, "ca.key"), ca.key.pem, { mode: 0o600 });
  const signer = join(dir, "sign");
  writeFileSync(
    signer,
    replaceTexts(blockOf("docs/enroll.md", "#!/bin/sh"), { "/etc/svc/": `${dir}/` }),
  );
  chmodSync(signer, 0o755);
  const identity = "https://fleet.example.com/d/web-17";
  const request = { csr_pem: csr, profile: { identity_uri: identity, ttl_seconds: 86_400 } };
  const output = execFileSync(signer, {
    input: JSON.stringify(request),
    stdio: ["pipe", "pipe", "ignore"],
  });
  const certificate = new X509Certificate(JSON.parse(output.toString()).certificate_pem);
  expect(certificate.verify(new X509Certificate(ca.pem).publicKey)).toBe(true);
  expect(certificate.subjectAltName).toBe(`URI:${identity}`);
  expect(certificate.keyUsage).toEqual(["1.3.6.1.5.5.7.3.2"]);
  expect(certificate.ca).toBe(false);
});
