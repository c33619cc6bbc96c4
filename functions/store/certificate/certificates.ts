import { and, count, desc, eq, gt, isNotNull, isNull, lte, ne, type SQL, sql } from "drizzle-orm";
import {
  certificate,
  collectorIdentity,
  type StoredCertificateStatus,
} from "#drizzle/schema/enrollment.ts";
import type { AgentKind } from "#proto/values.ts";
import type { Executor } from "../database/database.ts";
import {
  anyOf,
  anyOfHex,
  arrayLiteral,
  asIs,
  defineStatement,
  finderOf,
  firstRow,
  insertRows,
  listPage,
  lockerOf,
  oldestXid,
  type Paged,
  type PageRequest,
  readOne,
  timestamptz,
} from "../database/statements.ts";
import type { EnrolledIdentity } from "./identities.ts";

/** A certificate's row. */
export type CertificateRow = typeof certificate.$inferSelect;

const isActive = eq(certificate.status, "active");

/** A recorded certificate and its identity. */
export interface Issued {
  identity: EnrolledIdentity;
  certificate: CertificateRow;
}

/** Returns the row of a certificate that a signer issued at `issuedAt` (ms): active, unused, due for renewal at half its life. */
export const issuedRow = (
  issued: Pick<CertificateRow, "serialNumber" | "certificatePem" | "chainPem"> & {
    fingerprintSha256: string;
    notBefore: number;
    notAfter: number;
  },
  facts: Pick<CertificateRow, "id" | "identityId" | "predecessorId" | "tokenId" | "spkiSha256"> & {
    issuedAt: number;
  },
): CertificateRow => ({
  id: facts.id,
  identityId: facts.identityId,
  predecessorId: facts.predecessorId,
  tokenId: facts.tokenId,
  status: "active",
  serialNumber: issued.serialNumber,
  fingerprintSha256: Uint8Array.fromHex(issued.fingerprintSha256),
  spkiSha256: facts.spkiSha256,
  certificatePem: issued.certificatePem,
  chainPem: issued.chainPem,
  notBefore: new Date(issued.notBefore),
  notAfter: new Date(issued.notAfter),
  renewAfter: new Date(facts.issuedAt + Math.floor((issued.notAfter - facts.issuedAt) / 2)),
  issuedAt: new Date(facts.issuedAt),
  firstUsedAt: null,
  replacedAt: null,
  revokedAt: null,
  endedXid: null,
});

/** Inserts a certificate. Returns undefined if a row with its fingerprint exists. */
export const insertCertificate = async (
  db: Executor,
  row: typeof certificate.$inferInsert,
): Promise<CertificateRow | undefined> => {
  const target = certificate.fingerprintSha256;
  return firstRow(db.insert(certificate).values(row).onConflictDoNothing({ target }).returning());
};

/** Finds a certificate and locks its row until the transaction ends. Lock its identity first. */
export const lockCertificate = lockerOf(certificate);

/** Finds a certificate. */
export const findCertificate = finderOf(certificate);

/** Inserts certificates; none of them may have a row. */
export const insertCertificates = async (db: Executor, rows: readonly CertificateRow[]) => {
  await insertRows(db, certificate, rows);
};

/** Returns the fingerprints (lowercase hex) that have a row. */
export const findFingerprints = async (
  db: Executor,
  fingerprints: readonly string[],
): Promise<Set<string>> => {
  const { fingerprintSha256 } = certificate;
  const wanted = fingerprints.map((fingerprint) => Uint8Array.fromHex(fingerprint));
  const found = db
    .select({ fingerprintSha256 })
    .from(certificate)
    .where(anyOf(fingerprintSha256, wanted));
  const rows = await found.prepare("find_fingerprints").execute();
  return new Set(rows.map((row) => row.fingerprintSha256.toHex()));
};

/** Finds the active certificates issued for these tokens and keys after `since`, newest first: their responses may have been lost. */
export const findEnrolledCertificates = (
  db: Executor,
  {
    tokenIds,
    keys,
    since,
  }: { tokenIds: readonly string[]; keys: readonly Uint8Array[]; since: Date },
): Promise<CertificateRow[]> =>
  db
    .select()
    .from(certificate)
    .where(
      and(
        anyOf(certificate.tokenId, tokenIds),
        anyOf(certificate.spkiSha256, keys),
        isActive,
        gt(certificate.issuedAt, since),
      ),
    )
    .orderBy(desc(certificate.issuedAt))
    .prepare("find_enrolled_certificates")
    .execute();

/** Returns the ids of the named identities that have an active certificate unexpired at `now`. */
export const findIdentitiesInUse = async (
  db: Executor,
  names: readonly string[],
  now: Date,
): Promise<Set<string>> => {
  const { identityId, notAfter } = certificate;
  const found = db
    .select({ identityId })
    .from(collectorIdentity)
    .innerJoin(certificate, eq(identityId, collectorIdentity.id))
    .where(and(anyOf(collectorIdentity.identity, names), isActive, gt(notAfter, now)));
  const rows = await found.prepare("find_identities_in_use").execute();
  return new Set(rows.map((row) => row.identityId));
};

/** Finds the active certificates of an identity that are unexpired at `now`. */
export const findActiveCertificates = (
  db: Executor,
  identityId: string,
  now: Date,
): Promise<CertificateRow[]> =>
  db
    .select()
    .from(certificate)
    .where(and(eq(certificate.identityId, identityId), isActive, gt(certificate.notAfter, now)));

/** Makes the renewal of an identity's certificates in use overdue at `at`, whatever jitter its collector adds. */
export const updateRenewalDue = async (db: Executor, identityId: string, at: Date) => {
  const { renewAfter, notAfter, issuedAt, firstUsedAt } = certificate;
  const overdue = sql`least(${renewAfter}, ${timestamptz(at)} - (${notAfter} - ${issuedAt}) / 10 - interval '1 second')`;
  const isInUse = and(eq(certificate.identityId, identityId), isActive, isNotNull(firstUsedAt));
  await db.update(certificate).set({ renewAfter: overdue }).where(isInUse);
};

/** Marks the active certificates of an identity as replaced by another enrollment's, `by`, which may be stored already. */
export const updateActiveReplaced = async (
  db: Executor,
  identityId: string,
  { by, at }: { by: string; at: Date },
) => {
  const { id, identityId: ofIdentity } = certificate;
  await db
    .update(certificate)
    .set({ status: "replaced", replacedAt: at })
    .where(and(eq(ofIdentity, identityId), isActive, ne(id, by)));
};

/** Revokes the active certificates of an identity, unused successors included. Returns their ids. */
export const updateIdentityCertificatesRevoked = async (
  db: Executor,
  identityId: string,
  revokedAt: Date,
): Promise<string[]> => {
  return revokeWhere(db, revokedAt, and(eq(certificate.identityId, identityId), isActive));
};

/** Revokes a certificate and its unused successors. Returns their ids. */
export const updateCertificateRevoked = async (
  db: Executor,
  id: string,
  revokedAt: Date,
): Promise<string[]> => {
  const { id: own, predecessorId, firstUsedAt, status } = certificate;
  const isUnusedSuccessor = and(eq(predecessorId, id), isNull(firstUsedAt), isActive);
  return [
    ...(await revokeWhere(db, revokedAt, and(eq(own, id), ne(status, "revoked")))),
    ...(await revokeWhere(db, revokedAt, isUnusedSuccessor)),
  ];
};

const revokeWhere = async (
  db: Executor,
  revokedAt: Date,
  where: SQL | undefined,
): Promise<string[]> => {
  const rows = await db
    .update(certificate)
    .set({ status: "revoked", revokedAt })
    .where(where)
    .returning({ id: certificate.id });
  return rows.map(({ id }) => id);
};

/** A certificate and the one that it renewed. */
export interface Succession {
  id: string;
  predecessorId: string;
}

/** Stores the first use of certificates that were not used before. Returns those that renewed another. */
export const updateFirstUsed = async (
  db: Executor,
  ids: readonly string[],
  at: Date,
): Promise<Succession[]> => {
  const rows = await setFirstUsed(db, { ids: arrayLiteral(ids), at: at.toISOString() });
  return rows.flatMap(({ id, predecessorId }) =>
    predecessorId === null ? [] : [{ id, predecessorId }],
  );
};

const setFirstUsed = defineStatement<{ id: string; predecessorId: string | null }>(
  sql`update certificate set first_used_at = ${sql.placeholder("at")}::timestamptz
    where id = any(${sql.placeholder("ids")}::uuid[]) and first_used_at is null returning id, predecessor_id as "predecessorId"`,
);

/** Returns the issue times of an identity's renewals after `since` and up to `until`, newest first, at most `limit`. */
export const listRenewalTimes = async (
  db: Executor,
  identityId: string,
  { since, until, limit }: { since: Date; until: Date; limit: number },
): Promise<Date[]> => {
  const { issuedAt, predecessorId, identityId: ofIdentity } = certificate;
  const rows = await db
    .select({ issuedAt })
    .from(certificate)
    .where(
      and(
        eq(ofIdentity, identityId),
        isNotNull(predecessorId),
        gt(issuedAt, since),
        lte(issuedAt, until),
      ),
    )
    .orderBy(desc(issuedAt))
    .limit(limit);
  return rows.map((row) => row.issuedAt);
};

/** Marks active certificates replaced; a revoked one stays revoked. */
export const updateReplaced = async (db: Executor, ids: readonly string[], replacedAt: Date) => {
  const { id } = certificate;
  const replaced = db
    .update(certificate)
    .set({ status: "replaced", replacedAt })
    .where(and(anyOf(id, ids), isActive));
  await replaced.prepare("update_replaced").execute();
};

/** Finds the active, unused successor of a certificate. */
export const findUnusedSuccessor = (
  db: Executor,
  predecessorId: string,
): Promise<CertificateRow | undefined> =>
  firstRow(
    db
      .select()
      .from(certificate)
      .where(
        and(
          eq(certificate.predecessorId, predecessorId),
          isActive,
          isNull(certificate.firstUsedAt),
        ),
      ),
  );

/** Returns one page of the certificates of an identity. */
export const listCertificates = async (
  db: Executor,
  identityId: string,
  page: PageRequest,
): Promise<Paged<CertificateRow>> => {
  return listPage(db, certificate, page, [eq(certificate.identityId, identityId)]);
};

/** The state that, besides the dates, decides whether a certificate may be used. */
export interface CertificateState {
  certificateId: string;
  identityId: string;
  status: StoredCertificateStatus;
  agent: AgentKind;
  identityRevoked: boolean;
  /** The certificate has been used before. */
  used: boolean;
}

/** Returns the states of certificates by SHA-256 fingerprint (lowercase hex), with one query; unknown certificates are absent. */
export const findCertificateStates = async (
  db: Executor,
  fingerprints: readonly string[],
): Promise<ReadonlyMap<string, CertificateState>> => {
  const rows = await db
    .select({
      fingerprint: certificate.fingerprintSha256,
      certificateId: certificate.id,
      identityId: certificate.identityId,
      status: certificate.status,
      agent: collectorIdentity.agent,
      revokedAt: collectorIdentity.revokedAt,
      firstUsedAt: certificate.firstUsedAt,
    })
    .from(certificate)
    .innerJoin(collectorIdentity, eq(certificate.identityId, collectorIdentity.id))
    .where(
      anyOf(
        certificate.fingerprintSha256,
        fingerprints.map((fingerprint) => Uint8Array.fromHex(fingerprint)),
      ),
    );
  return new Map(
    rows.map(({ fingerprint, revokedAt, firstUsedAt, ...state }) => [
      new Uint8Array(fingerprint).toHex(),
      {
        ...state,
        identityRevoked: revokedAt !== null,
        used: firstUsedAt !== null,
      },
    ]),
  );
};

/** The position up to which ended certificates have been read, of the server that it names. */
export interface EndsRead {
  server: string;
  xid: string;
}

/**
 * Returns the certificates, by SHA-256 fingerprint (lowercase hex), that ended since an earlier call: in transactions still open then, so
 * the same one may be returned twice. `ended` is undefined when the server does not know `since`: at first, after its restart, and after a
 * failover.
 */
export const findEndedCertificates = async (
  db: Executor,
  since: EndsRead | undefined,
): Promise<{ read: EndsRead; ended: ReadonlySet<string> | undefined }> => {
  const { fingerprintSha256, endedXid } = certificate;
  // A row from a dump was written by another transaction than it names.
  const isEndedSince = sql`${endedXid} >= ${since?.xid ?? null}::bigint and certificate.xmin::text::bigint = (${endedXid} & 4294967295)`;
  const { xid, server, ended } = await readOne(
    db,
    { xid: String, server: String, ended: asIs<string[] | null> },
    sql`
    select ${oldestXid} as xid, pg_postmaster_start_time()::text as server,
      (select array_agg(encode(${fingerprintSha256}, 'hex')) from ${certificate} where ${isEndedSince}) as ended`,
  );
  return {
    read: { xid, server },
    ended: server === since?.server ? new Set(ended ?? []) : undefined,
  };
};

/**
 * Returns for each of these certificates, by SHA-256 fingerprint (lowercase hex, none twice), whether it is active and its identity not
 * revoked: in one row, because a core that starts soon has thousands of streams.
 */
export const areCertificatesActive = async (
  db: Executor,
  fingerprints: readonly string[],
): Promise<boolean> => {
  const [row] = await db
    .select({ active: count() })
    .from(certificate)
    .innerJoin(collectorIdentity, eq(certificate.identityId, collectorIdentity.id))
    .where(
      and(
        anyOfHex(certificate.fingerprintSha256, fingerprints),
        isActive,
        isNull(collectorIdentity.revokedAt),
      ),
    );
  return row?.active === fingerprints.length;
};
