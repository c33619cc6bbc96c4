import { generateKeyPairSync, type KeyObject } from "node:crypto";
import { certificate, collectorIdentity } from "../../drizzle/schema/certificate.ts";
import { bootstrapToken, enrollmentPolicy } from "../../drizzle/schema/enrollment.ts";
import { issuedRow } from "../../functions/domain/certificate/issued.ts";
import { createNodeCryptography, createNodeSigningKey } from "../../functions/node/node-cryptography.ts";
import { readAuthorities } from "../../functions/signer/authority.ts";
import { type ClientCertificateReader, createClientCertificateReader } from "../../functions/signer/certificate.ts";
import { createLocalCa } from "../../functions/signer/local-ca.ts";
import type { Signer } from "../../functions/signer/signer.ts";
import type { Database } from "../../functions/store/database.ts";
import { sha256 } from "../../kit/bytes.ts";
import { systemEntropy, uuidv7 } from "../../kit/entropy.ts";
import { decodePem } from "../../proto/pem.ts";
import { createTestCa } from "../lab-ca/test-pki.ts";

/** An enrolled host with its P-256 key. */
export interface BenchHost {
  identity: string;
  identityId: string;
  privateKey: KeyObject;
  publicKey: KeyObject;
  /** DER. */
  certificate: Uint8Array<ArrayBuffer>;
  certificateSha256: string;
}

/** A lab CA and the hosts that it certified. */
export interface BenchFleet {
  signer: Signer;
  clientCertificates: ClientCertificateReader;
  hosts: readonly BenchHost[];
}

const chunk = 500;

/** Enrolls `count` hosts at `now`, straight into the database. */
export const createBenchFleet = async (
  db: Database,
  { count, now }: { count: number; now: number },
): Promise<BenchFleet> => {
  const cryptography = createNodeCryptography();
  const ca = await createTestCa();
  const authorities = readAuthorities(ca.pem);
  const signer = await createLocalCa({ authorities, key: createNodeSigningKey(ca.key.pem), cryptography });
  const clock = { now: () => now };
  const id = () => uuidv7({ clock, entropy: systemEntropy });
  const at = new Date(now);
  const [policyId, tokenId, createdBy] = [id(), id(), id()];
  const created = { createdAt: at, createdBy, allowedSourceCidrs: [] };
  await db.insert(enrollmentPolicy).values({
    ...created,
    id: policyId,
    name: "bench",
    allowedIdentityPrefixes: ["https://fleet.bench/d/"],
    certificateTtlSeconds: 1_814_400,
    allowedPlatforms: [],
    maxEnrollments: 0,
    maxEnrollmentsPerHour: 0,
    reenrollment: "deny",
  });
  const secret = systemEntropy.bytes(32);
  await db.insert(bootstrapToken).values({
    ...created,
    id: tokenId,
    policyId,
    tokenSha256: secret,
    tokenPrefix: "bench",
    maxUses: 0,
    expiresAt: at,
  });

  const hosts: BenchHost[] = [];
  for (let first = 0; first < count; first += chunk) {
    const identities: (typeof collectorIdentity.$inferInsert)[] = [];
    const certificates: (typeof certificate.$inferInsert)[] = [];
    for (let index = first; index < Math.min(count, first + chunk); index++) {
      const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
      const spki = new Uint8Array(publicKey.export({ format: "der", type: "spki" }));
      const identity = `https://fleet.bench/d/host-${index}`;
      const serial = systemEntropy.bytes(16);
      const issued = await signer.sign({ csrPem: "", spki, identity, ttlSeconds: 1_814_400, serial, now });
      const identityId = id();
      identities.push({
        id: identityId,
        identity,
        deviceId: `host-${index}`,
        policyId,
        tokenId,
        platform: "linux/amd64",
        collectorVersion: "1.0.0",
        enrolledAt: at,
      });
      const facts = { id: id(), identityId, predecessorId: null, tokenId, issuedAt: now };
      certificates.push({ ...issuedRow(issued, { ...facts, spkiSha256: await sha256(spki) }), firstUsedAt: at });
      const der = decodePem(issued.certificatePem, "CERTIFICATE");
      if (der === undefined) throw new Error("not a certificate");
      const { fingerprintSha256: certificateSha256 } = issued;
      hosts.push({ identity, identityId, privateKey, publicKey, certificate: der, certificateSha256 });
    }
    await db.insert(collectorIdentity).values(identities);
    await db.insert(certificate).values(certificates);
  }
  return { signer, clientCertificates: createClientCertificateReader({ authorities, cryptography }), hosts };
};
