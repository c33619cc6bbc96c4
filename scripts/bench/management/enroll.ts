import { createNodeCryptography } from "../../../functions/node/node-cryptography.ts";
import { checkCsr } from "../../../functions/signer/csr.ts";
import type { Signer } from "../../../functions/signer/signer.ts";
import type { SqlClient } from "../../../functions/store/database/pool/sql-client.ts";
import { systemClock } from "../../../kit/clock.ts";
import { systemEntropy } from "../../../kit/entropy.ts";
import { prepareIngestCore } from "../../lab/ingest-core.ts";
import { quantile } from "../../lab/quantile.ts";
import { type EmbeddedDatabase, openEmbeddedDatabase } from "../../postgres/embedded-database.ts";
import { type Bench, readBenchOptions, rounded, runAll } from "../support/bench.ts";
import { judgeGoals } from "../support/goals.ts";
import { connectHttps, type HttpsSender } from "../support/https-sender.ts";
import { cpuSecondsOf, startProcess } from "../support/processes.ts";
import { createBenchCsr } from "./bench-csr.ts";
import {
  benchPrefix,
  benchTtlSeconds,
  createBenchSigner,
  insertBenchPolicy,
  insertBenchTokens,
} from "./enrolled-hosts.ts";

/** As many as a first minute has. More would compile what a user's first hosts find cold. */
const warmUp = 600;
const edgeProgram = new URL("../support/tls-edge.ts", import.meta.url).pathname;
const cryptography = createNodeCryptography();

/**
 * Measures the CPU time of a certificate for a one-time token: core as a process of its own behind a TLS edge, in a durable PostgreSQL.
 * `--hosts` new hosts enroll under one policy, whose lock all take, `--in-flight` at a time on kept connections, after 600 others. Each of
 * the senders waits for its response, so that the mean latency is their number divided by the rate. Then as many hosts with one token for
 * all. The floor is the CPU time of checking the same requests and signing their certificates, without HTTP or database. `--program` is the
 * main file of another core, to compare with.
 */
export const enrollBench: Bench = async (args) => {
  const options = readBenchOptions(args, { hosts: 3000, "in-flight": 128, program: "" });
  const { hosts, "in-flight": inFlight, program } = options;
  const { signer } = await createBenchSigner();
  const csrs = Array.from({ length: (hosts + warmUp) * 2 }, (_, index) =>
    createBenchCsr(`${benchPrefix}host-${index}`),
  );

  await using database = await openEmbeddedDatabase();
  const files = await prepareIngestCore(database.url, program === "" ? {} : { program });
  const core = await files.start();
  const { certFile, keyFile } = files.pki.edge;
  const edgeEnv = { ...process.env, CERT_FILE: certFile, KEY_FILE: keyFile, CORE_PORT: String(core.port) };
  const edge = await startProcess([edgeProgram], "ready", edgeEnv);
  const connections: HttpsSender[] = [];
  try {
    const port = Number(edge.records[0]?.port);
    while (connections.length < inFlight) connections.push(await connectHttps({ port, ca: files.caPem }));
    const now = systemClock.now();
    const policyId = await insertBenchPolicy(database.db, now);
    const load = { database, connections, corePid: core.process.pid ?? 0, edgePid: edge.pid, csrs };
    const oneTime = await insertBenchTokens(database.db, { policyId, count: hosts + warmUp, maxUses: 1, now });
    const [shared] = await insertBenchTokens(database.db, { policyId, count: 1, maxUses: 0, now });
    const of = (count: number, from: number) => ({ from, count });
    await enrollAll(load, of(warmUp, 0), (index) => oneTime[index]?.raw);
    await database.sql`vacuum analyze`;
    const figures = await enrollAll(load, of(hosts, warmUp), (index) => oneTime[index]?.raw);
    const floorUs = await signCpuUs(signer, csrs.slice(0, hosts));
    await enrollAll(load, of(warmUp, hosts + warmUp), () => shared?.raw);
    const sharedFigures = await enrollAll(load, of(hosts, hosts + 2 * warmUp), () => shared?.raw);
    await checkRecorded(database.sql, csrs.length, oneTime.length);

    const cpuUs = figures.cpu_us_each.core + figures.cpu_us_each.postgres;
    const judged = judgeGoals("enroll", { cpu_us: cpuUs, p99_ms: figures.latency_ms.p99 });
    return {
      figure: cpuUs,
      unit: "us of CPU a certificate, core and PostgreSQL (less is better)",
      floor: rounded(floorUs),
      ratio: rounded(cpuUs / floorUs, 1),
      ...judged,
      details: {
        hosts,
        in_flight: inFlight,
        one_time_tokens: figures,
        one_token_for_all: sharedFigures,
        warm_up: warmUp,
        floor: "us of CPU to check the same requests and sign their certificates",
      },
    };
  } finally {
    for (const connection of connections) connection.close();
    await edge.stop();
    core.process.kill("SIGKILL");
    await files.remove();
  }
};

interface Load {
  database: EmbeddedDatabase;
  connections: readonly HttpsSender[];
  corePid: number;
  edgePid: number;
  csrs: readonly string[];
}

/** Enrolls some of the hosts; returns the rate, the latencies and the CPU time that each took. */
const enrollAll = async (
  { database, connections, corePid, edgePid, csrs }: Load,
  { from, count }: { from: number; count: number },
  tokenOf: (index: number) => string | undefined,
) => {
  const cpuNow = () => {
    const { user, system } = process.cpuUsage();
    const [core, postgres] = [cpuSecondsOf(corePid), cpuSecondsOf(database.pid)];
    return { core, postgres, edge: cpuSecondsOf(edgePid), sender: (user + system) / 1e6 };
  };
  const free = [...connections];
  const before = cpuNow();
  const startedAt = performance.now();
  const latencies = await runAll(count, connections.length, async (offset) => {
    const index = from + offset;
    const connection = free.pop();
    if (connection === undefined) throw new Error("no connection is free");
    const body = JSON.stringify({
      csr_pem: csrs[index],
      device_id: `host-${index}`,
      hostname: `host-${index}.fleet.bench`,
      platform: "linux/amd64",
      collector_version: "1.0.0",
    });
    const authorization = `Authorization: Bearer ${tokenOf(index)}\r\n`;
    const { status, text } = await connection.post("/v1/collector/enroll", body, authorization);
    if (status !== 201) throw new Error(`enrollment rejected: ${text}`);
    free.push(connection);
  });
  const seconds = (performance.now() - startedAt) / 1000;
  const after = cpuNow();
  const microsecondsOf = (part: keyof typeof after) => rounded(((after[part] - before[part]) / count) * 1e6);
  return {
    per_second: rounded(count / seconds),
    latency_ms: { p50: rounded(quantile(latencies, 0.5)), p99: rounded(quantile(latencies, 0.99)) },
    cpu_us_each: {
      core: microsecondsOf("core"),
      postgres: microsecondsOf("postgres"),
      edge: microsecondsOf("edge"),
      sender: microsecondsOf("sender"),
    },
  };
};

/** Returns the microseconds of CPU of a certificate: check the request, sign, one after the other. */
const signCpuUs = async (signer: Signer, csrs: readonly string[]): Promise<number> => {
  const before = process.cpuUsage();
  for (const csrPem of csrs) {
    const checked = await checkCsr(csrPem, cryptography);
    if (!checked.ok) throw new Error(checked.fault);
    const serial = systemEntropy.bytes(16);
    await signer.sign({ ...checked.csr, csrPem, ttlSeconds: benchTtlSeconds, serial, now: systemClock.now() });
  }
  const { user, system } = process.cpuUsage(before);
  return (user + system) / csrs.length;
};

const checkRecorded = async (sql: SqlClient, count: number, usedOnce: number) => {
  const [row] = await sql`select (select count(*)::int from certificate) as certificates,
    (select count(*)::int from audit_event where action = 'collector.enroll') as events,
    (select enrollment_count::int from enrollment_policy) as enrollments,
    (select count(*)::int from bootstrap_token where max_uses = 1 and use_count = 1) as used_once,
    (select sum(use_count)::int from bootstrap_token) as uses,
    (select count(*)::int from enrollment_reservation) as held`;
  const expected = {
    certificates: count,
    events: count,
    enrollments: count,
    used_once: usedOnce,
    uses: count,
    held: 0,
  };
  const good = Object.entries(expected).every(([name, value]) => row?.[name] === value);
  if (!good) throw new Error(`not everything was recorded: ${JSON.stringify(row)}`);
};
