import type { Sql } from "postgres";
import { createNodeCryptography } from "../../functions/node/node-cryptography.ts";
import { checkCsr } from "../../functions/signer/csr.ts";
import type { Signer } from "../../functions/signer/signer.ts";
import { systemClock } from "../../kit/clock.ts";
import { systemEntropy } from "../../kit/entropy.ts";
import { createInProcessCore, openApp } from "../lab/in-process-core.ts";
import { quantile } from "../lab/quantile.ts";
import { createTestCsr, createTestKey } from "../lab-ca/test-pki.ts";
import { openEmbeddedDatabase } from "../postgres/embedded-database.ts";
import { type Bench, readBenchOptions, rounded, runAll } from "./bench.ts";
import { benchPrefix, benchTtlSeconds, createBenchSigner, insertBenchToken } from "./enrolled-hosts.ts";

/** Certificates a second on one core, and enrollments a second through the whole route. */
const signGoal = 1500;
const routeGoal = 600;
const cryptography = createNodeCryptography();

/**
 * Measures enrollments through the whole route: app, token, limits, certificate request, local CA, audit, in a durable PostgreSQL. All
 * use one policy and one token, the hardest case, because each takes their locks. `--hosts` new hosts enroll, `--in-flight` at a time.
 * The floor is what one core does with the same requests: checks and certificates alone.
 */
export const enrollBench: Bench = async (args) => {
  const { hosts, "in-flight": inFlight } = readBenchOptions(args, { hosts: 3000, "in-flight": 256 });
  const warmUp = Math.ceil(hosts / 5);
  const signing = await createBenchSigner();
  const { signer } = signing;
  const csrs = await Promise.all(
    Array.from({ length: hosts + warmUp }, async (_, index) =>
      createTestCsr({ key: await createTestKey(), uri: `${benchPrefix}host-${index}` }),
    ),
  );
  await using database = await openEmbeddedDatabase();
  const { token } = await insertBenchToken(database.db, systemClock.now());
  const send = openApp(createInProcessCore({ db: database.db, clock: systemClock, ...signing }));
  const enroll = async (index: number) => {
    const body = JSON.stringify({
      csr_pem: csrs[index],
      device_id: `host-${index}`,
      hostname: `host-${index}.fleet.bench`,
      platform: "linux/amd64",
      collector_version: "1.0.0",
    });
    const headers = {
      Authorization: `Bearer ${token}`,
      "Content-Type": "application/json",
      "Content-Length": String(body.length),
    };
    const response = await send(
      new Request("http://core.bench/v1/collector/enroll", { method: "POST", headers, body }),
    );
    if (response.status !== 201) throw new Error(`enrollment rejected: ${await response.text()}`);
  };
  await signRate(signer, csrs.slice(hosts));
  await runAll(warmUp, inFlight, (index) => enroll(hosts + index));
  const before = await signRate(signer, csrs.slice(0, Math.ceil(hosts / 2)));
  const cpuBefore = process.cpuUsage();
  const startedAt = performance.now();
  const latencies = await runAll(hosts, inFlight, enroll);
  const seconds = (performance.now() - startedAt) / 1000;
  const cpu = process.cpuUsage(cpuBefore);
  const after = await signRate(signer, csrs.slice(Math.ceil(hosts / 2), hosts));
  await checkRecorded(database.sql, hosts + warmUp);

  const [figure, floor] = [hosts / seconds, (before + after) / 2];
  return {
    figure: rounded(figure),
    unit: "enrollments/s",
    floor: rounded(floor),
    ratio: rounded(figure / floor, 3),
    goal: routeGoal / signGoal,
    ok: figure >= routeGoal && floor >= signGoal,
    details: {
      hosts,
      in_flight: inFlight,
      seconds: rounded(seconds, 2),
      core_cpu_us_each: rounded((cpu.user + cpu.system) / hosts),
      latency_ms: { p50: rounded(quantile(latencies, 0.5)), p99: rounded(quantile(latencies, 0.99)) },
      route_goal_per_second: routeGoal,
      csr_to_certificate_goal_per_second: signGoal,
      floor: "the same requests checked and certified by the local CA on one core, one after the other",
    },
  };
};

/** Returns certificates a second: check the request, sign, one after the other. */
const signRate = async (signer: Signer, csrs: readonly string[]): Promise<number> => {
  const startedAt = performance.now();
  for (const csrPem of csrs) {
    const checked = await checkCsr(csrPem, cryptography);
    if (!checked.ok) throw new Error(checked.fault);
    const serial = systemEntropy.bytes(16);
    await signer.sign({ ...checked.csr, csrPem, ttlSeconds: benchTtlSeconds, serial, now: systemClock.now() });
  }
  return csrs.length / ((performance.now() - startedAt) / 1000);
};

const checkRecorded = async (sql: Sql, count: number) => {
  const [row] = await sql`select (select count(*)::int from certificate) as certificates,
    (select count(*)::int from audit_event where action = 'collector.enroll') as events,
    (select enrollment_count::int from enrollment_policy) as enrollments,
    (select count(*)::int from enrollment_reservation) as held`;
  const good = row?.certificates === count && row.events === count && row.enrollments === count && row.held === 0;
  if (!good) throw new Error(`not everything was recorded: ${JSON.stringify(row)}`);
};
