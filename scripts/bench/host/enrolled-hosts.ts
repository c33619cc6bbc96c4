import { generateKeyPairSync, type KeyObject } from "node:crypto";
import { createSecureContext } from "node:tls";
import {
  bootstrapToken,
  certificate,
  collectorIdentity,
  enrollmentPolicy,
} from "#drizzle/schema/enrollment.ts";
import type { Core } from "#functions/core.ts";
import { generateToken } from "#functions/domain/enrollment/bootstrap-token.ts";
import { loadLocalCa } from "#functions/node/load-signer.ts";
import { createNodeCryptography, createNodeSigningKey } from "#functions/node/node-cryptography.ts";
import { readAuthorities } from "#functions/signer/authority.ts";
import { createClientCertificateReader } from "#functions/signer/certificate.ts";
import { createLocalCa } from "#functions/signer/local-ca.ts";
import type { Signer } from "#functions/signer/signer.ts";
import { issuedRow } from "#functions/store/certificate/certificates.ts";
import type { Database } from "#functions/store/database/database.ts";
import { sha256 } from "#kit/bytes.ts";
import { systemClock } from "#kit/clock.ts";
import { systemEntropy, uuidv7 } from "#kit/entropy.ts";
import { createTestCa } from "#scripts/lab/ca/test-pki.ts";
import type { IngestCore } from "#scripts/lab/ingest-core.ts";
import { runAll } from "../support/bench.ts";
import type { BenchCore } from "../support/bench-core.ts";
import type { HostTarget } from "./connection.ts";

/** Identities of hosts are this and the device id. */
export const benchPrefix = "https://fleet.bench/d/";
/** Lifetime of certificates. */
export const benchTtlSeconds = 1_814_400;

/** An enrolled host with its P-256 key. */
export interface BenchHost {
  identity: string;
  identityId: string;
  privateKey: KeyObject;
  /** PEM. */
  certificate: string;
  fingerprintSha256: string;
}

/** Creates a local CA. */
export const createBenchSigner = async (): Promise<
  { signer: Signer } & Pick<Core, "clientCertificates">
> => {
  const cryptography = createNodeCryptography();
  const ca = await createTestCa();
  const authorities = readAuthorities(ca.pem);
  const signer = await createLocalCa({
    authorities,
    key: createNodeSigningKey(ca.key.pem),
    cryptography,
  });
  return {
    signer,
    clientCertificates: createClientCertificateReader({ authorities, cryptography }),
  };
};

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
): Promise<{ id: string; raw: string }[]> => {
  const tokens = Array.from({ length: count }, () => ({
    id: idAt(now),
    raw: generateToken(systemEntropy),
  }));
  const rows = await Promise.all(
    tokens.map(async ({ id, raw }) => ({
      id,
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

/** Core limits the handshakes of a remote address. */
const hostsPerAddress = 50;

/** Returns the PEM of a host's certificate and key. */
export const pemOf = ({ certificate: cert, privateKey }: BenchHost) => ({
  cert,
  key: privateKey.export({ format: "pem", type: "pkcs8" }).toString(),
});

/** Returns where the `index`th host connects to core, and as whom. */
export const hostTarget = (
  { ingestPort, ca }: Pick<BenchCore, "ingestPort" | "ca">,
  host: BenchHost,
  index: number,
): HostTarget => {
  const address = 1 + Math.floor(index / hostsPerAddress);
  return {
    port: ingestPort,
    secureContext: createSecureContext({ ca, ...pemOf(host) }),
    localAddress: `127.${10 + (address >> 16)}.${(address >> 8) & 255}.${address & 255}`,
  };
};

/** Connects the hosts, sixteen at a time; returns their connections in the same order. */
export const connectHosts = async <Connection>(
  core: BenchCore,
  hosts: readonly BenchHost[],
  connect: (target: HostTarget, host: BenchHost, index: number) => Promise<Connection>,
): Promise<Connection[]> => {
  const connections: Connection[] = [];
  await runAll(hosts.length, 16, async (index) => {
    const host = hosts[index];
    if (host === undefined) return;
    const attempt = () => connect(hostTarget(core, host, index), host, index);
    // On a busy machine a handshake may exceed core's deadline: like a collector, connect again.
    connections[index] = await attempt().catch(attempt);
  });
  return connections;
};

/** Enrolls `count` hosts with the CA of a core that has not started yet, straight into its database. */
export const enrollBenchHosts = async (
  { db }: { db: Database },
  { pki }: IngestCore,
  count: number,
): Promise<BenchHost[]> => {
  const { certFile: certificateFile, keyFile } = pki.enrollmentCa;
  const { signer } = await loadLocalCa({
    certificateFile,
    keyFile,
    cryptography: createNodeCryptography(),
  });
  const now = systemClock.now();
  const policyId = await insertBenchPolicy(db, now);
  const [token] = await insertBenchTokens(db, { policyId, count: 1, maxUses: 0, now });
  const issue = createIssuer(signer, { policyId, tokenId: token?.id ?? "", now });
  const hosts: BenchHost[] = [];
  while (hosts.length < count) {
    const numbers = Array.from(
      { length: Math.min(rowsPerInsert, count - hosts.length) },
      (_, index) => hosts.length + index,
    );
    const issued = await Promise.all(numbers.map(issue));
    await db.insert(collectorIdentity).values(issued.map(({ identityRow }) => identityRow));
    await db.insert(certificate).values(issued.map(({ certificateRow }) => certificateRow));
    hosts.push(...issued.map(({ host }) => host));
  }
  return hosts;
};

/** Returns a function that issues the certificate of the `index`th host, with the rows of its enrollment. */
const createIssuer =
  (signer: Signer, granted: { policyId: string; tokenId: string; now: number }) =>
  async (index: number) => {
    const { policyId, tokenId, now } = granted;
    const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
    const spki = new Uint8Array(publicKey.export({ format: "der", type: "spki" }));
    const deviceId = `host-${index}`;
    const identity = `${benchPrefix}${deviceId}`;
    const identityId = idAt(now);
    const issued = await signer.sign({
      csrPem: "",
      spki,
      identity,
      ttlSeconds: benchTtlSeconds,
      serial: systemEntropy.bytes(16),
      now,
    });
    const host: BenchHost = {
      identity,
      identityId,
      privateKey,
      certificate: issued.certificatePem,
      fingerprintSha256: issued.fingerprintSha256,
    };
    const collector = { platform: "linux/amd64", collectorVersion: "1.0.0" };
    const facts = { id: idAt(now), identityId, predecessorId: null, tokenId, issuedAt: now };
    return {
      host,
      identityRow: {
        id: identityId,
        identity,
        deviceId,
        policyId,
        tokenId,
        ...collector,
        enrolledAt: new Date(now),
      },
      certificateRow: {
        ...issuedRow(issued, { ...facts, spkiSha256: await sha256(spki) }),
        firstUsedAt: new Date(now),
      },
    };
  };
