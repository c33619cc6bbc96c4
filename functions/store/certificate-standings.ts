import { eq, inArray } from "drizzle-orm";
import { certificate, collectorIdentity, type StoredCertificateStatus } from "../../drizzle/schema/certificate.ts";
import type { Executor } from "./database.ts";

/** What decides whether a certificate may be used, beside its dates. */
export interface CertificateStanding {
  certificateId: string;
  identityId: string;
  status: StoredCertificateStatus;
  identityRevoked: boolean;
  /** It has been used before. */
  used: boolean;
}

/** Standings by SHA-256 fingerprint (lowercase hex), in one query; a certificate without a row is absent. */
export const findCertificateStandings = async (
  db: Executor,
  fingerprints: readonly string[],
): Promise<ReadonlyMap<string, CertificateStanding>> => {
  const rows = await db
    .select({
      fingerprint: certificate.fingerprintSha256,
      certificateId: certificate.id,
      identityId: certificate.identityId,
      status: certificate.status,
      revokedAt: collectorIdentity.revokedAt,
      firstUsedAt: certificate.firstUsedAt,
    })
    .from(certificate)
    .innerJoin(collectorIdentity, eq(certificate.identityId, collectorIdentity.id))
    .where(
      inArray(
        certificate.fingerprintSha256,
        fingerprints.map((fingerprint) => Uint8Array.fromHex(fingerprint)),
      ),
    );
  return new Map(
    rows.map(({ fingerprint, certificateId, identityId, status, revokedAt, firstUsedAt }) => [
      new Uint8Array(fingerprint).toHex(),
      { certificateId, identityId, status, identityRevoked: revokedAt !== null, used: firstUsedAt !== null },
    ]),
  );
};
