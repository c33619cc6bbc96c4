import { type Credentials, joinCredentials } from "#collector/identity/credentials.ts";
import { createCsr, generateKeyPem } from "#collector/identity/request-certificate.ts";
import { callEnroll } from "#collector/management/calls.ts";
import { bootstrapToken, enrollmentPolicy } from "#drizzle/schema/enrollment.ts";
import { generateToken } from "#functions/domain/enrollment/bootstrap-token.ts";
import type { Database } from "#functions/store/database/database.ts";
import { sha256 } from "#kit/bytes.ts";
import { systemClock } from "#kit/clock.ts";
import { systemEntropy, uuidv7 } from "#kit/entropy.ts";
import { Secret } from "#kit/secret.ts";
import type { EnrollRequest } from "#proto/management/enroll.ts";
import { runAll } from "../support/bench.ts";
import type { BenchCore } from "../support/bench-core.ts";

/** Identities of hosts are this and the device id. */
export const benchPrefix = "https://fleet.bench/d/";
/** Lifetime of certificates. */
export const benchTtlSeconds = 1_814_400;

/** An enrolled host. */
export interface BenchHost extends Credentials {
  identityId: string;
}

/** Inserts a policy whose limits are not reached: they cost what limits cost. Returns its id. */
export const insertBenchPolicy = async (db: Database, now: number): Promise<string> => {
  const id = idAt(now);
  await db.insert(enrollmentPolicy).values({
    id,
    name: "bench",
    allowedIdentityPrefixes: [benchPrefix],
    certificateTtlSeconds: benchTtlSeconds,
    allowedPlatforms: ["linux"],
    allowedSourceCidrs: [],
    maxEnrollments: 1_000_000,
    maxEnrollmentsPerHour: 1_000_000,
    reenrollment: "deny",
    createdAt: new Date(now),
    createdBy: idAt(now),
  });
  return id;
};

/** Inserts `count` tokens of a policy, each for `maxUses` hosts. */
export const insertBenchTokens = async (
  db: Database,
  {
    policyId,
    count,
    maxUses,
    now,
  }: { policyId: string; count: number; maxUses: number; now: number },
): Promise<string[]> => {
  const tokens = Array.from({ length: count }, () => generateToken(systemEntropy));
  const rows = await Promise.all(
    tokens.map(async (raw) => ({
      id: idAt(now),
      policyId,
      tokenSha256: await sha256(raw),
      tokenPrefix: raw.slice(0, 12),
      maxUses,
      allowedSourceCidrs: [],
      expiresAt: new Date(now + 3_600_000),
      createdAt: new Date(now),
      createdBy: policyId,
    })),
  );
  while (rows.length > 0) await db.insert(bootstrapToken).values(rows.splice(0, rowsPerInsert));
  return tokens;
};

const idAt = (now: number): string => uuidv7({ clock: { now: () => now }, entropy: systemEntropy });

const rowsPerInsert = 500;

/** Creates a certificate request of a device, in PEM. */
export const createBenchCsr = async (deviceId: string): Promise<string> =>
  createCsr(`${benchPrefix}${deviceId}`, await generateKeyPem());

/** Returns the body of a host's request to enroll. */
export const enrollmentOf = (deviceId: string, csrPem: string): EnrollRequest => ({
  csr_pem: csrPem,
  device_id: deviceId,
  hostname: `${deviceId}.fleet.bench`,
  platform: "linux/amd64",
  collector_version: "1.0.0",
  agent: "svc-collector",
});

/** Enrolls `count` hosts at a core that runs, as collectors do, and analyzes its tables. */
export const enrollBenchHosts = async (
  { database: { db, sql }, httpPort }: Pick<BenchCore, "database" | "httpPort">,
  count: number,
): Promise<BenchHost[]> => {
  const now = systemClock.now();
  const policyId = await insertBenchPolicy(db, now);
  const [token = ""] = await insertBenchTokens(db, { policyId, count: 1, maxUses: 0, now });
  const transport = {
    baseUrl: `http://127.0.0.1:${httpPort}`,
    caPem: undefined,
    serverName: undefined,
    timeoutMs: 30_000,
  };
  const hosts: BenchHost[] = [];
  await runAll(count, 16, async (index) => {
    const deviceId = `host-${index}`;
    const keyPem = await generateKeyPem();
    const body = enrollmentOf(deviceId, await createCsr(`${benchPrefix}${deviceId}`, keyPem));
    const issued = await callEnroll(transport, new Secret(token), body);
    const credentials = joinCredentials(issued.certificate_pem, keyPem);
    hosts[index] = { ...credentials, identityId: issued.identity_id };
  });
  await sql`vacuum analyze`;
  return hosts;
};

/** Connects the hosts to the ingest listener, sixteen at a time; returns their connections in the same order. */
export const connectHosts = async <Connection>(
  hosts: readonly BenchHost[],
  connect: (host: BenchHost, index: number) => Promise<Connection>,
): Promise<Connection[]> => {
  const connections: Connection[] = [];
  await runAll(hosts.length, 16, async (index) => {
    const host = hosts[index];
    if (host === undefined) return;
    // On a busy machine a handshake may exceed core's deadline: like a collector, connect again.
    const attempt = () => connect(host, index);
    connections[index] = await attempt().catch(attempt);
  });
  return connections;
};
