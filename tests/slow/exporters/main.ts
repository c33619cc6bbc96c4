/**
 * `bun run exporters`: third-party senders (OpenTelemetry SDK over HTTP and gRPC, OTLP/JSON by curl, gRPC with a retry policy) send to a
 * real collector with a queue of 1 MB, while core is stopped by SIGSTOP. The collector delays each request by 5 s and rejects it, and
 * the senders retry by themselves; the SDK over gRPC does not, so it sends just before core continues. In the end core has stored every
 * span once. Prints one JSON object; exit code 1 when that does not hold.
 */

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type CollectorStatus, fetchStatus } from "../../../collector/status/status-socket.ts";
import { systemClock } from "../../../kit/clock.ts";
import { systemEntropy } from "../../../kit/entropy.ts";
import { bundlePrograms, programPaths } from "../../../scripts/bundle/bundle-programs.ts";
import { prepareIngestCore } from "../../../scripts/lab/ingest-core.ts";
import { waitUntil } from "../../../scripts/lab/wait-until.ts";
import { findPorts } from "../../../scripts/ports.ts";
import { openEmbeddedDatabase } from "../../../scripts/postgres/embedded-database.ts";
import { exportByGrpc, spansOf, traceRequest } from "../../support/otlp.ts";
import {
  type OtlpAddresses,
  type OtlpSender,
  patientSenders,
  sendBySdkOverGrpc,
} from "../../support/otlp-senders.ts";
import { findStored } from "../../support/stored-envelopes.ts";

const hostId = "https://fleet.exporters/d/host-1";
const spansPerSender = 50;
/** More than the size of a record with one span, without the span's name. */
const overheadBytes = 200;

const namesOf = (sender: string) =>
  Array.from({ length: spansPerSender }, (_, index) => `${sender} ${index}`);

/** Starts core and a collector with an `otlp` source and the smallest queue; both end with `cleanup`. */
const startBoth = async (cleanup: AsyncDisposableStack) => {
  const dir = await mkdtemp(join(tmpdir(), "exporters-"));
  cleanup.defer(() => rm(dir, { recursive: true }));
  const database = await openEmbeddedDatabase();
  cleanup.defer(() => database.close());
  const files = await prepareIngestCore(database.url);
  cleanup.defer(() => files.remove());
  const core = await files.start();
  cleanup.defer(() => kill(core.process));
  const [grpcPort, httpPort] = await findPorts(2, systemEntropy);
  const to: OtlpAddresses = { grpc: `127.0.0.1:${grpcPort}`, http: `127.0.0.1:${httpPort}` };
  const pair = await files.client(hostId);
  for (const [name, text] of Object.entries({
    "tls.crt": pair.cert,
    "tls.key": pair.key,
    "ca.pem": files.caPem,
    "collector.yaml": `run_as_root_acknowledged: I-UNDERSTAND-ROOT-MODE
sources: [{type: otlp, grpc: {listen: "${to.grpc}"}, http: {listen: "${to.http}"}}]
forwarder: {endpoint: "localhost:${core.ingestPort}", mtls: {cert_file: tls.crt, key_file: tls.key, ca_file: ca.pem}}
buffer: {dir: data, max_disk_usage_mb: 1}
`,
  }))
    await writeFile(join(dir, name), text, { mode: 0o600 });
  const args = [programPaths["svc-collector"], "run", "--config", join(dir, "collector.yaml")];
  const collector = spawn(process.execPath, args, { stdio: ["ignore", "ignore", "inherit"] });
  cleanup.defer(() => kill(collector));
  return {
    to,
    core: core.process,
    sql: database.sql,
    status: () => fetchStatus(join(dir, "data")),
  };
};

const kill = async (child: ChildProcess): Promise<void> => {
  child.kill("SIGKILL");
  await once(child, "exit");
};

/** Fills the queue, so that not even a small request fits. */
const fill = async (to: OtlpAddresses, status: () => Promise<CollectorStatus>): Promise<void> => {
  for (;;) {
    const { max_bytes: most, bytes } = (await status()).queue;
    const room = most - bytes - overheadBytes;
    if (room <= 0) return;
    await exportByGrpc(
      to.grpc ?? "",
      traceRequest(["filler".padEnd(Math.min(room, 500_000), ".")]),
    );
  }
};

const run = async () => {
  await bundlePrograms();
  await using cleanup = new AsyncDisposableStack();
  const { to, core, sql, status } = await startBoth(cleanup);
  const until = { clock: systemClock, signal: AbortSignal.timeout(120_000) };
  const wait = (what: string, isSo: () => Promise<boolean>) =>
    waitUntil({ what, ...until }, async () => (await isSo()) || undefined);
  const refusals = async () => (await status()).sources[0]?.counters.unavailable ?? 0;

  await wait("the collector forwards", async () => (await status()).forwarder.connected);
  core.kill("SIGSTOP");
  await fill(to, status);
  const outcomes: Record<string, string> = {};
  const send = async (name: string, sender: OtlpSender) => {
    outcomes[name] = await sender(to, namesOf(name)).then(
      () => "all is stored",
      (error: unknown) => (error instanceof Error ? error.message : "failed"),
    );
  };
  const patient = Object.entries(patientSenders);
  const sending = patient.map(([name, sender]) => send(name, sender));
  await wait("each was rejected", async () => (await refusals()) >= patient.length);
  sending.push(send("the OpenTelemetry SDK over gRPC", sendBySdkOverGrpc));
  await systemClock.sleep(1_000);
  const refused = await refusals();
  core.kill("SIGCONT");
  await Promise.all(sending);

  const sent = Object.keys(outcomes).flatMap(namesOf);
  const readStored = async () => {
    const stored = await findStored(sql);
    const names = stored.flatMap(({ payload }) => spansOf(payload).map(({ name }) => name));
    return names.filter((name) => !name.startsWith("filler"));
  };
  await wait(
    "everything is stored",
    async () => new Set(await readStored()).size >= sent.length,
  ).catch(() => undefined);
  const stored = await readStored();
  const distinct = new Set(stored);
  const missing = sent.filter((name) => !distinct.has(name)).length;
  const duplicates = stored.length - distinct.size;
  const { dropped_records_total: dropped } = (await status()).queue;
  const ok =
    missing + duplicates + dropped === 0 &&
    Object.values(outcomes).every((outcome) => outcome === "all is stored");
  return {
    ok,
    outcomes,
    refused,
    sent: sent.length,
    stored: stored.length,
    missing,
    duplicates,
    dropped,
  };
};

const result = await run();
console.log(JSON.stringify(result));
process.exitCode = result.ok ? 0 : 1;
