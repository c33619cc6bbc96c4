import { mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { adoptExports } from "#functions/store/export/renumber-envelopes.ts";
import { systemClock } from "#kit/clock.ts";
import { programPaths } from "#scripts/bundle/bundle-programs.ts";
import { prepareIngestCore } from "#scripts/lab/ingest-core.ts";
import { storeKeyEnvironment } from "#scripts/lab/tabulate-stored.ts";
import { findPorts } from "#scripts/ports.ts";
import { connectNodeDatabase } from "#scripts/postgres/connect-node-database.ts";
import { openTemporaryFolder } from "#scripts/temporary-folder.ts";
import { startTcpProxy } from "#tests/fakes/tcp-proxy.ts";
import { startReplicatedPostgres } from "#tests/support/database/replicated-postgres.ts";
import { startChaosBackend } from "./chaos-backend.ts";
import { createWrongClocks } from "./clocks.ts";
import { startLoad } from "./collector-load.ts";
import { startCopiedHost } from "./copied-hosts.ts";
import { exportEnvironment, readKeys } from "./exported.ts";
import type { Scene } from "./fault.ts";
import { drainTimeoutMs } from "./inject.ts";
import { createKilledProgram } from "./killed-program.ts";
import { startNumberedLoad } from "./load.ts";
import { postgresBin } from "./restore-faults.ts";
import { type DiscardedQueues, readStoredQueues } from "./stored-queues.ts";

/** Writes the files of a collector with a `file` source and an `otlp` source over gRPC to `<dir>/host`, and an empty log beside them. */
const writeCollectorFiles = async (
  dir: string,
  options: { cert: string; key: string; caPem: string; otlpPort: number; ingestPort: number },
) => {
  const host = join(dir, "host");
  await mkdir(host);
  const log = join(dir, "logs", "app.log");
  await mkdir(dirname(log));
  await writeFile(log, "");
  for (const [name, text] of Object.entries({
    "tls.crt": options.cert,
    "tls.key": options.key,
    "ca.pem": options.caPem,
    "collector.yaml": `run_as_root_acknowledged: I-UNDERSTAND-ROOT-MODE
sources:
  - {type: otlp, grpc: {listen: "127.0.0.1:${options.otlpPort}"}}
  - {type: file, include: ["${log}"], start_at: beginning}
forwarder: {endpoint: "localhost:${options.ingestPort}", mtls: {cert_file: tls.crt, key_file: tls.key, ca_file: ca.pem}}
buffer: {dir: data}
`,
  }))
    await writeFile(join(host, name), text, { mode: 0o600 });
  return { config: join(host, "collector.yaml"), log };
};

const hostIds = ["a", "b", "c", "d"].map((name) => `https://fleet.chaos/d/${name}`);
const copiedHostIds = ["e", "f"].map((name) => `https://fleet.chaos/d/${name}`);
/** The host of the collector. */
export const collectorHostId = "https://fleet.chaos/d/collector";
/** The hosts whose queues are judged by what they were owed. */
export const judgedHostIds = [...copiedHostIds, collectorHostId];
const coreCount = 2;
const restartMs = 200;

interface SceneOptions extends Pick<Scene, "backupMs"> {
  recordsPerSecond: number;
  /** A value of `SVC_INGEST_STORE`. */
  store: string;
}

/** Starts PostgreSQL, cores, the export with its backend, and hosts that send. All of it ends with `cleanup`. */
export const startScene = async (
  { recordsPerSecond, store, backupMs }: SceneOptions,
  cleanup: AsyncDisposableStack,
  beforeKill: { core(pid: number): void; collector(pid: number): void },
) => {
  const { path: dir } = cleanup.use(await openTemporaryFolder("chaos"));
  const clocks = await createWrongClocks();
  cleanup.defer(() => clocks.remove());
  const server = await startReplicatedPostgres({
    bin: postgresBin,
    env: clocks.postgres.env,
    // Two cores, and what they lose when a connection is swallowed.
    settings: { max_connections: "200" },
  });
  cleanup.defer(() => server.stop("immediate"));
  const [proxy, direct] = await Promise.all([
    startTcpProxy(server.socket()),
    startTcpProxy(server.socket()),
  ]);
  for (const { close } of [proxy, direct]) cleanup.defer(close);
  const connect = () =>
    connectNodeDatabase({
      url: `postgres://postgres@127.0.0.1:${direct.port}/postgres`,
      // The oracle reads all that was stored.
      deadlineMs: 10 * drainTimeoutMs,
    });
  const { sql, close } = connect();
  cleanup.defer(() => close(1));
  const [otlpPort = 0, ...corePorts] = await findPorts(1 + 2 * coreCount);
  const ingestPorts = corePorts.slice(0, coreCount);
  const httpPorts = corePorts.slice(coreCount);
  const files = await prepareIngestCore(`postgres://postgres@127.0.0.1:${proxy.port}/postgres`, {
    env: {
      ...clocks.core.env,
      ...storeKeyEnvironment(),
      SVC_INGEST_STORE: store,
      SVC_TRUST_LOOPBACK_OPS: "true",
    },
    program: programPaths["svc-server"],
  });
  cleanup.defer(() => files.remove());

  const ended: string[] = [];
  const onEnd = (name: string) => (how: number | string | null) =>
    void ended.push(`${name} ended by itself: ${how}`);
  // As systemd does: a program that ends while its database is unavailable is started again.
  const supervised = (
    name: string,
    options: Parameters<typeof files.start>[0],
    onKill?: (pid: number) => void,
  ) => {
    const start = async (attempts = drainTimeoutMs / restartMs) => {
      try {
        return (await files.start(options)).process;
      } catch (cause) {
        if (attempts <= 0) throw cause;
        await systemClock.sleep(restartMs);
        return start(attempts - 1);
      }
    };
    const supervisedProgram = createKilledProgram(start, {
      ...(onKill && { beforeKill: onKill }),
      onEnd: onEnd(name),
    });
    cleanup.defer(() => supervisedProgram.end());
    return supervisedProgram;
  };
  const cores = ingestPorts.map((port, index) =>
    supervised(
      "core",
      { env: { SVC_INGEST_GRPC_ADDR: `127.0.0.1:${port}`, PORT: `${httpPorts[index]}` } },
      beforeKill.core,
    ),
  );
  // One after the other: the first migrates.
  for (const core of cores) await core.start();
  const backend = await startChaosBackend();
  cleanup.defer(() => backend.close());
  const exporter = supervised("the export", { args: ["export"], env: exportEnvironment(backend) });
  await exporter.start();

  let turn = 0;
  const balance = () => ingestPorts[turn++ % coreCount] ?? 0;
  const [balancer, link] = await Promise.all([startTcpProxy(balance), startTcpProxy(balance)]);
  for (const { close: end } of [balancer, link]) cleanup.defer(end);
  const collectorOptions = { ...(await files.client(collectorHostId)), caPem: files.caPem };
  const { config, log } = await writeCollectorFiles(dir, {
    ...collectorOptions,
    otlpPort,
    ingestPort: link.port,
  });
  const collector = createKilledProgram(["run", "--config", config], {
    beforeKill: beforeKill.collector,
    onEnd: onEnd("the collector"),
  });
  cleanup.defer(() => collector.end());
  await collector.start();
  const collected = startLoad(log, `127.0.0.1:${otlpPort}`, recordsPerSecond);
  cleanup.defer(() => collected.stop());
  const numbered = await startNumberedLoad(hostIds, { port: balancer.port, ...files });
  const tlsOf = async (hostId: string) => ({ ...(await files.client(hostId)), ca: files.caPem });
  const strangers = {
    resets: await tlsOf("https://fleet.chaos/d/resets"),
    slow: await tlsOf("https://fleet.chaos/d/slow"),
  };
  const copied = await Promise.all(
    copiedHostIds.map(async (hostId) =>
      startCopiedHost(dir, { hostId, ingestPort: balancer.port, tls: await tlsOf(hostId) }),
    ),
  );
  for (const host of copied) cleanup.defer(() => host.finish());

  const discarded: DiscardedQueues[] = [];
  const discardedKeys = new Map<string, string>();
  const scene: Scene = {
    postgres: server,
    proxy,
    sql,
    cores,
    httpPorts,
    ingestPort: ingestPorts[0] ?? 0,
    collector,
    link,
    balance,
    exporter,
    backend,
    clocks,
    hostIds,
    copied,
    strangers,
    rotate: collected.rotate,
    backupMs,
    async adoptExports() {
      // Those to the database that was dropped have ended.
      direct.reset();
      const { db, close: disconnect } = connect();
      await adoptExports(db);
      await disconnect(1);
    },
    collectorDir: join(dirname(config), "data"),
    async failOver() {
      await server.failOver();
      proxy.target(server.socket());
      direct.target(server.socket());
      direct.reset();
    },
    async discardDatabase(since) {
      const stored = await readStoredQueues(sql, judgedHostIds, { since });
      discarded.push({ ...stored, discardedAt: performance.now() });
      for (const [key, host] of await readKeys(sql, "stored_envelope", since))
        discardedKeys.set(key, host);
      for (const queue of numbered.queues) queue.expectRewind();
    },
  };
  return { scene, collected, numbered, discarded, discardedKeys, ended };
};
