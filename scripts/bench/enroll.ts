import { parseArgs } from "node:util";
import { bootstrapToken, enrollmentPolicy } from "../../drizzle/schema/enrollment.ts";
import { createApp } from "../../functions/app.ts";
import { generateToken } from "../../functions/domain/enrollment/rules.ts";
import type { HttpContext } from "../../functions/http/request.ts";
import { createNodeCryptography, createNodeSigningKey } from "../../functions/node/node-cryptography.ts";
import { readAuthorities } from "../../functions/signer/authority.ts";
import { createClientCertificateReader } from "../../functions/signer/certificate.ts";
import { checkCsr } from "../../functions/signer/csr.ts";
import { createLocalCa } from "../../functions/signer/local-ca.ts";
import type { Signer } from "../../functions/signer/signer.ts";
import type { Database } from "../../functions/store/database.ts";
import { sha256 } from "../../kit/bytes.ts";
import { systemClock } from "../../kit/clock.ts";
import { systemEntropy, uuidv7 } from "../../kit/entropy.ts";
import { createTestCa, createTestCsr, createTestKey } from "../lab-ca/test-pki.ts";
import { openEmbeddedDatabase } from "../postgres/embedded-database.ts";
import { type Bench, quantile } from "./bench.ts";
import { createBenchCore } from "./core.ts";

/** Goals of performance: certificates a second on one core, and enrollments a second through the whole route. */
const signGoal = 1500;
const routeGoal = 600;
const prefix = "https://fleet.bench/d/";
const ttlSeconds = 1_814_400;
const cryptography = createNodeCryptography();

/**
 * Enrollments through the whole route: app, token, limits, certificate request, local CA, audit, in a durable PostgreSQL; all of
 * one policy and one token, which is the hardest, as every one takes their locks. `--hosts` new hosts enroll, `--in-flight` at a
 * time. The floor is what one core makes of the very same requests: checks and certificates alone.
 */
export const bench: Bench = async (args) => {
  const { values } = parseArgs({
    args: [...args],
    options: { hosts: { type: "string", default: "3000" }, "in-flight": { type: "string", default: "256" } },
  });
  const [hosts, inFlight] = [Number(values.hosts), Number(values["in-flight"])];
  const warmUp = Math.ceil(hosts / 5);
  const ca = await createTestCa();
  const authorities = readAuthorities(ca.pem);
  const signer = await createLocalCa({ authorities, key: createNodeSigningKey(ca.key.pem), cryptography });
  const clientCertificates = createClientCertificateReader({ authorities, cryptography });
  const csrs = await Promise.all(
    Array.from({ length: hosts + warmUp }, async (_, index) =>
      createTestCsr({ key: await createTestKey(), uri: `${prefix}host-${index}` }),
    ),
  );
  const database = await openEmbeddedDatabase();
  try {
    const token = await insertToken(database.db);
    const core = createBenchCore(database, { signer, clientCertificates }, () => systemClock.now());
    const app = createApp(core, { peerOf: (c: HttpContext) => c.env.peer });
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
      const request = new Request("http://core.bench/v1/collector/enroll", { method: "POST", headers, body });
      const response = await app.fetch(request, {
        peer: { remoteAddress: "127.0.0.1", certificate: null, listener: "http" },
      });
      if (response.status !== 201) throw new Error(`enrollment refused: ${await response.text()}`);
    };
    await measureSigning(signer, csrs.slice(hosts));
    await runAll(warmUp, inFlight, (index) => enroll(hosts + index));
    const before = await measureSigning(signer, csrs.slice(0, Math.ceil(hosts / 2)));
    const latencies = new Float64Array(hosts);
    const cpuBefore = process.cpuUsage();
    const startedAt = performance.now();
    await runAll(hosts, inFlight, async (index) => {
      const sentAt = performance.now();
      await enroll(index);
      latencies[index] = performance.now() - sentAt;
    });
    const seconds = (performance.now() - startedAt) / 1000;
    const cpu = process.cpuUsage(cpuBefore);
    const after = await measureSigning(signer, csrs.slice(Math.ceil(hosts / 2), hosts));
    await checkRecorded(database, hosts + warmUp);

    const [figure, floor] = [hosts / seconds, (before + after) / 2];
    return {
      name: "enroll",
      figure: Math.round(figure),
      unit: "enrollments/s",
      floor: Math.round(floor),
      ratio: Math.round((figure / floor) * 1000) / 1000,
      goal: routeGoal / signGoal,
      ok: figure >= routeGoal && floor >= signGoal,
      details: {
        hosts,
        in_flight: inFlight,
        seconds: Math.round(seconds * 100) / 100,
        core_cpu_us_each: Math.round((cpu.user + cpu.system) / hosts),
        latency_ms: { p50: Math.round(quantile(latencies, 0.5)), p99: Math.round(quantile(latencies, 0.99)) },
        route_goal_per_second: routeGoal,
        csr_to_certificate_goal_per_second: signGoal,
        floor: "the same requests checked and certified by the local CA on one core, one after the other",
      },
    };
  } finally {
    await database.close();
  }
};

const insertToken = async (db: Database): Promise<string> => {
  const now = systemClock.now();
  const id = () => uuidv7({ clock: systemClock, entropy: systemEntropy });
  const [policyId, createdBy] = [id(), id()];
  const created = { createdAt: new Date(now), createdBy, allowedSourceCidrs: [] };
  await db.insert(enrollmentPolicy).values({
    ...created,
    id: policyId,
    name: "bench",
    allowedIdentityPrefixes: [prefix],
    certificateTtlSeconds: ttlSeconds,
    allowedPlatforms: ["linux"],
    // Limits that are not reached cost what limits cost.
    maxEnrollments: 1_000_000,
    maxEnrollmentsPerHour: 1_000_000,
    reenrollment: "deny",
  });
  const token = generateToken(systemEntropy).reveal();
  await db.insert(bootstrapToken).values({
    ...created,
    id: id(),
    policyId,
    tokenSha256: await sha256(token),
    tokenPrefix: token.slice(0, 12),
    maxUses: 1_000_000,
    expiresAt: new Date(now + 3_600_000),
  });
  return token;
};

/** Certificates a second: check the request, sign, one after the other. */
const measureSigning = async (signer: Signer, csrs: readonly string[]): Promise<number> => {
  const startedAt = performance.now();
  for (const csrPem of csrs) {
    const checked = await checkCsr(csrPem, cryptography);
    if (!checked.ok) throw new Error(checked.fault);
    const serial = systemEntropy.bytes(16);
    await signer.sign({ ...checked.csr, csrPem, ttlSeconds, serial, now: systemClock.now() });
  }
  return csrs.length / ((performance.now() - startedAt) / 1000);
};

const runAll = async (count: number, inFlight: number, run: (index: number) => Promise<void>): Promise<void> => {
  let next = 0;
  const work = async () => {
    for (let index = next++; index < count; index = next++) await run(index);
  };
  await Promise.all(Array.from({ length: inFlight }, work));
};

const checkRecorded = async (
  { sql }: { sql: Awaited<ReturnType<typeof openEmbeddedDatabase>>["sql"] },
  count: number,
) => {
  const [row] = await sql`select (select count(*)::int from certificate) as certificates,
    (select count(*)::int from audit_event where action = 'collector.enroll') as events,
    (select enrollment_count::int from enrollment_policy) as enrollments,
    (select count(*)::int from enrollment_reservation) as held`;
  const good = row?.certificates === count && row.events === count && row.enrollments === count && row.held === 0;
  if (!good) throw new Error(`not everything was recorded: ${JSON.stringify(row)}`);
};
