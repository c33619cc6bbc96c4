import { and, desc, eq, gt, inArray, isNull, ne } from "drizzle-orm";
import { certificate } from "../../drizzle/schema/certificate.ts";
import type { Executor } from "./database.ts";
import { type Page, type Paged, paged, pageOf } from "./page.ts";

/** A certificate's row. */
export type CertificateRow = typeof certificate.$inferSelect;

/** Inserts a certificate; undefined when this very certificate has a row already. */
export const insertCertificate = async (
  db: Executor,
  row: typeof certificate.$inferInsert,
): Promise<CertificateRow | undefined> => {
  const target = certificate.fingerprintSha256;
  const [inserted] = await db.insert(certificate).values(row).onConflictDoNothing({ target }).returning();
  return inserted;
};

/** The certificate, its row locked until the transaction ends. Lock its identity first. */
export const lockCertificate = async (db: Executor, id: string): Promise<CertificateRow | undefined> => {
  const [row] = await db.select().from(certificate).where(eq(certificate.id, id)).for("no key update");
  return row;
};

/** The certificate with this id. */
export const findCertificate = async (db: Executor, id: string): Promise<CertificateRow | undefined> => {
  const [row] = await db.select().from(certificate).where(eq(certificate.id, id));
  return row;
};

/** The newest certificate that a token enrolled for a key after a moment: what a lost answer held. */
export const findEnrolledCertificate = async (
  db: Executor,
  { tokenId, spkiSha256, since }: { tokenId: string; spkiSha256: Uint8Array; since: Date },
): Promise<CertificateRow | undefined> => {
  const [row] = await db
    .select()
    .from(certificate)
    .where(
      and(
        eq(certificate.tokenId, tokenId),
        eq(certificate.spkiSha256, spkiSha256),
        eq(certificate.status, "active"),
        gt(certificate.issuedAt, since),
      ),
    )
    .orderBy(desc(certificate.issuedAt))
    .limit(1);
  return row;
};

/** The active certificates of an identity that have not expired at `now`. */
export const findActiveCertificates = (db: Executor, identityId: string, now: Date): Promise<CertificateRow[]> =>
  db
    .select()
    .from(certificate)
    .where(
      and(eq(certificate.identityId, identityId), eq(certificate.status, "active"), gt(certificate.notAfter, now)),
    );

/** Marks the active certificates of an identity replaced, as when it enrolls again. */
export const updateActiveReplaced = async (db: Executor, identityId: string, replacedAt: Date): Promise<void> => {
  await db
    .update(certificate)
    .set({ status: "replaced", replacedAt })
    .where(and(eq(certificate.identityId, identityId), eq(certificate.status, "active")));
};

/** Revokes every active certificate of an identity, unused successors included; gives their ids. */
export const updateIdentityCertificatesRevoked = async (
  db: Executor,
  identityId: string,
  revokedAt: Date,
): Promise<string[]> => {
  const rows = await db
    .update(certificate)
    .set({ status: "revoked", revokedAt })
    .where(and(eq(certificate.identityId, identityId), eq(certificate.status, "active")))
    .returning({ id: certificate.id });
  return rows.map((row) => row.id);
};

/** Revokes a certificate and those of its successors that nobody has used; gives the ids. */
export const updateCertificateRevoked = async (db: Executor, id: string, revokedAt: Date): Promise<string[]> => {
  const rows = await db
    .update(certificate)
    .set({ status: "revoked", revokedAt })
    .where(and(eq(certificate.id, id), ne(certificate.status, "revoked")))
    .returning({ id: certificate.id });
  const successors = await db
    .update(certificate)
    .set({ status: "revoked", revokedAt })
    .where(
      and(eq(certificate.predecessorId, id), isNull(certificate.firstUsedAt), inArray(certificate.status, ["active"])),
    )
    .returning({ id: certificate.id });
  return [...rows, ...successors].map((row) => row.id);
};

/** Marks a certificate's first use; undefined when it was used before. */
export const updateFirstUsed = async (db: Executor, id: string, at: Date): Promise<CertificateRow | undefined> => {
  const [row] = await db
    .update(certificate)
    .set({ firstUsedAt: at })
    .where(and(eq(certificate.id, id), isNull(certificate.firstUsedAt)))
    .returning();
  return row;
};

/** Marks an active certificate replaced; one that is revoked stays revoked. */
export const updateReplaced = async (db: Executor, id: string, replacedAt: Date): Promise<void> => {
  await db
    .update(certificate)
    .set({ status: "replaced", replacedAt })
    .where(and(eq(certificate.id, id), eq(certificate.status, "active")));
};

/** The active certificate that was issued to succeed this one, if nobody has used it yet. */
export const findUnusedSuccessor = async (db: Executor, predecessorId: string): Promise<CertificateRow | undefined> => {
  const [row] = await db
    .select()
    .from(certificate)
    .where(
      and(
        eq(certificate.predecessorId, predecessorId),
        eq(certificate.status, "active"),
        isNull(certificate.firstUsedAt),
      ),
    );
  return row;
};

/** One page of an identity's certificates. */
export const listCertificates = async (
  db: Executor,
  identityId: string,
  page: Page,
): Promise<Paged<CertificateRow>> => {
  const { where, orderBy, limit } = pageOf(certificate.id, page, [eq(certificate.identityId, identityId)]);
  return paged(await db.select().from(certificate).where(where).orderBy(orderBy).limit(limit), page);
};
