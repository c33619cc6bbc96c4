import { appendFile, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, it } from "vitest";
import { parseDocument } from "yaml";
import { createTestLab } from "../support/deployment/lab.ts";
import { logged, type Program, startProgram, stopProgram } from "../support/program.ts";
import { findStored } from "../support/stored-envelopes.ts";

/*
 * The lifecycle of a host with the real programs: core and collector as processes, PostgreSQL, mutual TLS, a TLS edge. The tests build on
 * each other, in order.
 */
const { dir, pki, sql, tokenFile, ...lab } = await createTestLab();
const core = await lab.startCore({ SVC_HEARTBEAT_INTERVAL: "11s" });
const { ingestPort } = core;
const host = lab.createHost("host-1", await lab.startEdge(core), core);

const collector = (...args: string[]) => startProgram("collector/main.ts", args);
const config = join(host.configDir, "collector.yaml");
const log = join(dir, "host-1.log");

const begin = async () => {
  const run = collector("run", "--config", config);
  await logged(run, "collector runs");
  return run;
};
const stopCleanly = async (program: Program) => {
  expect(await stopProgram(program), program.stderr).toBe(0);
};

const storedLines = async () =>
  (await findStored(sql)).flatMap(({ kind, text }) => (kind === "otel_metric" ? [] : [text]));
/** The states of the host's certificates, oldest first. */
const certificates = async () =>
  (await sql`select status from certificate order by not_before, id`).map(({ status }) => status);
const heartbeats = () => sql`
  select last_heartbeat_at as at, boot_id as boot from collector_health`;

it("enrolls through the TLS edge", async () => {
  await lab.writeToken(core);
  await host.enroll();
});

it("forwards lines and sends heartbeats through the edge, and stops cleanly", async () => {
  await host.tail();
  await writeFile(log, "one\ntwo\n");
  const run = collector("run", "--config", config);
  await expect.poll(storedLines, { message: run.stderr }).toEqual(["one", "two"]);
  await expect.poll(async () => (await heartbeats()).length).toBe(1);
  await appendFile(log, "three\n");
  await expect.poll(storedLines).toEqual(["one", "two", "three"]);
  await stopCleanly(run);
  expect(run.records.filter(({ level }) => level !== "info")).toEqual([]);
});

it("renews through the edge, and through the ingest listener, which also serves management requests", async () => {
  const first = collector("renew", "--config", config);
  expect(await first.exited, first.stderr).toBe(0);
  const ingest = ["--core", `https://localhost:${ingestPort}`, "--ca-bundle", pki.serverCaFile];
  const second = collector("renew", "--config", config, ...ingest);
  expect(await second.exited, second.stderr).toBe(0);
  expect(await certificates()).toEqual(["replaced", "active", "active"]);
});

it("sends heartbeats directly to the ingest listener with its new certificate and a new boot id", async () => {
  const [before] = await heartbeats();
  await host.edit(["management", "core_url"], `https://localhost:${ingestPort}`);
  await appendFile(log, "four\n");
  const run = collector("run", "--config", config);
  await expect.poll(async () => (await heartbeats())[0]?.boot).not.toBe(before?.boot);
  await expect.poll(storedLines).toEqual(["one", "two", "three", "four"]);
  await stopCleanly(run);
  expect(await certificates()).toEqual(["replaced", "replaced", "active"]);
});

it("loads a desired config and a certificate that another process renewed, without a restart", async () => {
  await host.edit(["management", "apply_desired_config"], true);
  await host.edit(["management", "file_roots"], [dir]);
  const [row] = await sql`select id from collector_identity`;
  const document = parseDocument(await readFile(config, "utf8"));
  document.addIn(["sources"], document.createNode({ type: "host_metrics" }));
  const desired = `# by core\n${document.toString()}`;
  const configs = "/v1/collector/configs";
  const published = await core.api<{ id: string; config_hash: string }>("admin", "POST", configs, {
    yaml: desired,
  });
  await core.api("admin", "POST", `${configs}/${published.id}/assignments`, {
    identity_ids: [row?.id],
  });

  const run = collector("run", "--config", config);
  await logged(run, "the desired config is promoted");
  expect(await readFile(config, "utf8")).toBe(desired);
  const metrics = async () => (await findStored(sql)).filter(({ kind }) => kind === "otel_metric");
  await expect.poll(async () => (await metrics()).length).toBe(1);
  const hashes = () => sql`select running_config_hash as running from collector_health`;
  await expect.poll(async () => (await hashes())[0]?.running).toBe(published.config_hash);

  const renew = collector("renew", "--config", config, "--json");
  expect(await renew.exited, renew.stderr).toBe(0);
  const { certificate } = renew.records[0] as { certificate: { fingerprint_sha256: string } };
  const asked = async () => {
    const status = collector("status", "--config", config, "--json");
    await status.exited;
    return status.records[0];
  };
  await expect.poll(asked).toMatchObject({
    certificate,
    renewal: { status: "ok" },
    sources: [{ name: "file" }, { name: "host_metrics" }],
  });
  await expect.poll(certificates).toEqual(["replaced", "replaced", "replaced", "active"]);
  await stopCleanly(run);
  await host.tail();
});

it("loses nothing when the collector is killed with kill -9", async () => {
  const run = await begin();
  await appendFile(log, Array.from({ length: 2000 }, (_, n) => `line ${n}\n`).join(""));
  await expect.poll(async () => (await storedLines()).length).toBeGreaterThan(4);
  run.child.kill("SIGKILL");
  await run.exited;
  const again = await begin();
  await expect.poll(async () => (await storedLines()).length).toBe(2004);
  expect(new Set(await storedLines()).size).toBe(2004);
  await stopCleanly(again);
});

it("E12: stores the bootstrap token nowhere but in its file", async () => {
  const token = (await readFile(tokenFile, "utf8")).slice(12);
  expect(JSON.stringify(core.program.records) + core.program.stderr).not.toContain(token);
  for (const entry of await readdir(host.configDir, {
    withFileTypes: true,
    recursive: true,
  })) {
    if (!entry.isFile()) continue;
    expect((await readFile(join(entry.parentPath, entry.name))).includes(token)).toBe(false);
  }
});

it("keeps its records, and reports why, once its identity is revoked", async () => {
  const [row] = await sql`select id from collector_identity`;
  const run = await begin();
  await core.api("admin", "POST", `/v1/collector/identities/${row?.id}/revoke`, {
    reason_code: "lost_device",
  });
  await expect
    .poll(() => JSON.stringify(run.records))
    .toMatch(/forwarding interrupted.*|identity_revoked|certificate_revoked/);
  await appendFile(log, "after\n");
  await stopCleanly(run);
  expect(await storedLines()).toHaveLength(2004);
  const diag = startProgram("collector/main.ts", ["diag", "--config", config, "--json"]);
  expect(await diag.exited).toBe(0);
  expect(diag.records[0]).toMatchObject({
    validation: { ok: true },
    certificate: { identity: host.identity },
  });
});
