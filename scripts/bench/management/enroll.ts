import { createNodeCryptography } from "#functions/node/node-cryptography.ts";
import { checkCsr } from "#functions/signer/csr.ts";
import type { Signer } from "#functions/signer/signer.ts";
import type { SqlClient } from "#functions/store/database/pool/sql-client.ts";
import { systemClock } from "#kit/clock.ts";
import { systemEntropy } from "#kit/entropy.ts";
import { mapValues } from "#kit/map-values.ts";
import { readCommandOptions } from "#scripts/read-command-options.ts";
import {
  benchTtlSeconds,
  createBenchCsr,
  createBenchSigner,
  enrollmentOf,
  insertBenchPolicy,
  insertBenchTokens,
} from "../host/enrolled-hosts.ts";
import { type Bench, describeSamples, rounded, runOnEach } from "../support/bench.ts";
import { type BenchCore, startBenchCore } from "../support/bench-core.ts";
import { judgeGoals } from "../support/goals.ts";
import { connectHttps, type HttpsSender } from "../support/https-sender.ts";
import { measureHere, ownCpuSeconds, startMeter } from "../support/processes.ts";

/** As many as a first minute has. More would compile what a user's first hosts find cold. */
const warmUp = 600;
const cryptography = createNodeCryptography();

/**
 * Measures the CPU time of a certificate for a one-time token: core as a process of its own behind a TLS edge, in a durable PostgreSQL.
 * `--hosts` new hosts enroll under one policy, whose lock all take, `--in-flight` at a time on kept connections, after 600 others. Each of
 * the senders waits for its response, so that the mean latency is their number divided by the rate. Then as many hosts with one token for
 * all. The floor is the CPU time of checking the same requests and signing their certificates, without HTTP or database. `--program` is the
 * main file of another core, to compare with.
 */
export const enrollBench: Bench = async (args) => {
  const options = readCommandOptions({ hosts: 3000, "in-flight": 128, program: "" }, args);
  const { hosts, "in-flight": inFlight, program } = options;
  const { signer } = await createBenchSigner();
  const csrs: string[] = [];
  while (csrs.length < (hosts + warmUp) * 2) csrs.push(await createBenchCsr(`host-${csrs.length}`));

  await using core = await startBenchCore({ program, hasEdge: true });
  const { database } = core;
  const connections = await connectEdge(core, inFlight);
  try {
    const now = systemClock.now();
    const policyId = await insertBenchPolicy(database.db, now);
    const load = { core, connections, csrs };
    const once = { policyId, count: hosts + warmUp, maxUses: 1, now };
    const oneTime = await insertBenchTokens(database.db, once);
    const [shared] = await insertBenchTokens(database.db, { policyId, count: 1, maxUses: 0, now });
    const oneTimeOf = (index: number) => oneTime[index]?.raw;
    const sharedOf = () => shared?.raw;
    await enrollAll(load, { from: 0, count: warmUp }, oneTimeOf);
    await database.sql`vacuum analyze`;
    const figures = await enrollAll(load, { from: warmUp, count: hosts }, oneTimeOf);
    const { cpuUs: floorUs } = await signAll(signer, csrs.slice(0, hosts));
    await enrollAll(load, { from: hosts + warmUp, count: warmUp }, sharedOf);
    const last = { from: hosts + 2 * warmUp, count: hosts };
    const sharedFigures = await enrollAll(load, last, sharedOf);
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
  }
};

const connectEdge = async ({ edgePort: port, ca }: BenchCore, count: number) => {
  const connections: HttpsSender[] = [];
  while (connections.length < count) connections.push(await connectHttps({ port, ca }));
  return connections;
};

interface Load {
  core: BenchCore;
  connections: readonly HttpsSender[];
  csrs: readonly string[];
}

/** Enrolls some of the hosts; returns the rate, the latencies and the CPU time that each took. */
const enrollAll = async (
  { core, connections, csrs }: Load,
  { from, count }: { from: number; count: number },
  tokenOf: (index: number) => string | undefined,
) => {
  const meter = startMeter(() => ({ ...core.cpu(), sender: ownCpuSeconds() }));
  const latencies = await runOnEach(connections, count, async (connection, offset) => {
    const index = from + offset;
    const { status, text } = await postEnrollment(
      connection,
      `host-${index}`,
      csrs[index],
      tokenOf(index),
    );
    if (status !== 201) throw new Error(`enrollment rejected: ${text}`);
  });
  const { cpu, seconds } = meter();
  return {
    per_second: rounded(count / seconds),
    latency_ms: describeSamples(latencies),
    cpu_us_each: mapValues(cpu, (used) => rounded((used / count) * 1e6)),
  };
};

/** Sends the request of a host that enrolls. */
export const postEnrollment = (connection: HttpsSender, deviceId: string, csr = "", token = "") =>
  connection.post(
    "/v1/collector/enroll",
    JSON.stringify(enrollmentOf(deviceId, csr)),
    `Authorization: Bearer ${token}\r\n`,
  );

/** Checks requests and signs their certificates, one after the other; returns the rate, and the microseconds of CPU of each. */
export const signAll = async (signer: Signer, csrs: readonly string[]) => {
  const { seconds, cpuSeconds } = await measureHere(async () => {
    for (const csrPem of csrs) {
      const checked = await checkCsr(csrPem, cryptography);
      if (!checked.ok) throw new Error(checked.fault);
      const serial = systemEntropy.bytes(16);
      await signer.sign({
        ...checked.csr,
        csrPem,
        ttlSeconds: benchTtlSeconds,
        serial,
        now: systemClock.now(),
      });
    }
  });
  return { perSecond: csrs.length / seconds, cpuUs: (cpuSeconds * 1e6) / csrs.length };
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
