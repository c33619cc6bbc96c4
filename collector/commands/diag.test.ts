import { rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeEach, expect, it } from "vitest";
import { configHash } from "#proto/collector-config/tree.ts";
import { runCollector } from "#tests/collector/support/collector-command.ts";
import { createEnrolledHost, type EnrolledHost } from "#tests/collector/support/enrolled-host.ts";
import { createTestCollectorEnv } from "#tests/fakes/collector-env.ts";
import { openQueue } from "../queue/queue.ts";

const bufferOf = (dir: string) => ({
  dir,
  maxDiskUsageBytes: 1_048_576,
  maxRecordAgeSeconds: 60,
  dropNewestOnFull: false,
  atRiskBytesPercent: 80,
  atRiskOldestSeconds: 60,
});

let host: EnrolledHost;
beforeEach(async () => {
  host = await createEnrolledHost({
    more: `management: {desired_config_hash: ${"d".repeat(64)}}\nlabels: {env: prod}\n`,
  });
});

const diag = async () => {
  const { code, out } = await runCollector(["diag", "--config", host.config]);
  return { code, bundle: JSON.parse(out), text: out };
};

it("prints the documented bundle and nothing else, while a collector has the queue open", async () => {
  const env = createTestCollectorEnv();
  const queue = openQueue({ ...bufferOf(join(host.dir, "data")), ...env });
  const record = {
    kind: "log_line",
    observedAtMs: 0,
    source: "file",
    attributes: {},
    payload: Buffer.from("hello-payload"),
  };
  await queue.append([record]);
  const { code, bundle, text } = await diag();
  await queue.close();
  expect(code).toBe(0);
  expect(bundle).toEqual({
    version: expect.stringMatching(/^\d+\.\d+\.\d+/),
    commit: expect.any(String),
    generated_at: "2026-06-01T12:00:00.000Z",
    validation: { ok: true, errors: [] },
    config: {
      running_config_hash: await configHash(host.configText),
      desired_config_hash: "d".repeat(64),
      last_known_good_config_hash: null,
    },
    labels: { env: "prod" },
    forwarder: { endpoint: "core.example.net:8443", server_name: null },
    routes: { ingest: "direct", management: null, note: null },
    trust: {
      ingest: {
        bundle: null,
        settled: null,
        fault: null,
        authorities: [{ name: "CN=Test CA", not_after: "2036-01-01T00:00:00.000Z" }],
      },
      management: null,
    },
    certificate: {
      identity: host.identity,
      serial_number: "1a2b3c",
      fingerprint_sha256: expect.stringMatching(/^[0-9a-f]{64}$/),
      not_before: "2026-01-01T00:00:00.000Z",
      not_after: "2099-01-01T00:00:00.000Z",
      issuer: "CN=Test CA",
    },
    running: null,
    queue: {
      records: 1,
      bytes: expect.any(Number),
      max_bytes: 104_857_600,
      oldest_record_age_seconds: 0,
      dropped_records_total: 0,
      dead_letters: 0,
      forks_total: 0,
      file_gaps_total: 0,
      file_gap_bytes_total: 0,
      at_risk: false,
    },
    quarantine: { files: 0, records: 0, lost_records: 0 },
    redactions: expect.arrayContaining([expect.stringContaining("private keys")]),
  });
  for (const hidden of ["PRIVATE KEY", "tls.key", "tls.crt", host.dir, "hello-payload", "core-ca"])
    expect(text).not.toContain(hidden);
});

it("exits 0 with validation.ok false for a config that is invalid, malformed or missing", async () => {
  await writeFile(host.keyFile, "svcbt_secret");
  expect(await diag()).toMatchObject({
    code: 0,
    bundle: { validation: { ok: false }, certificate: { issuer: "CN=Test CA" } },
  });
  await writeFile(host.config, "forwarder: svcbt_secret");
  const { code, bundle, text } = await diag();
  expect([code, bundle.validation.ok, bundle.forwarder, bundle.queue]).toEqual([
    0,
    false,
    null,
    null,
  ]);
  expect(text).not.toContain("svcbt_secret");
  await rm(host.config);
  expect(await diag()).toMatchObject({
    code: 0,
    bundle: { validation: { ok: false }, config: { running_config_hash: null } },
  });
});

it("prints the hash of a candidate whose files are missing on this host", async () => {
  const candidate =
    "forwarder: {endpoint: a:1, mtls: {cert_file: /c, key_file: /k, ca_file: /a}}\nbuffer: {dir: /q}\n";
  await writeFile(host.config, candidate);
  expect((await diag()).bundle.config.running_config_hash).toBe(await configHash(candidate));
});
