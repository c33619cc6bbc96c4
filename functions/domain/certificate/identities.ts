import type { Core, WriteCore } from "#functions/core.ts";
import { Problem, requireFound } from "#functions/problems.ts";
import {
  type CertificateRow,
  findActiveCertificates,
  findCertificate,
  listCertificates,
  lockCertificate,
  updateCertificateRevoked,
  updateIdentityCertificatesRevoked,
  updateRenewalDue,
} from "#functions/store/certificate/certificates.ts";
import {
  findIdentity,
  type IdentityFilter,
  type IdentityRow,
  listIdentities,
  lockIdentity,
  notifyHosts,
  notifyRevocation,
  updateIdentity,
  updateRestartAsked,
} from "#functions/store/certificate/identities.ts";
import type { Paged, PageRequest } from "#functions/store/database/statements.ts";
import { type By, recordOperatorAction } from "../audit/audit-log.ts";

/** Revokes an identity with all its active certificates and their successors; final and idempotent. Throws 404 `not_found`. */
export const revokeIdentity = async (
  core: WriteCore,
  by: By,
  { identityId, reasonCode }: { identityId: string; reasonCode: string | null },
): Promise<{ identity: IdentityRow; revokedCertificateIds: string[] }> =>
  core.db.transaction(async (tx) => {
    const identity = requireFound(await lockIdentity(tx, identityId));
    if (identity.revokedAt !== null) return { identity, revokedCertificateIds: [] };
    const revokedAt = new Date(core.clock.now());
    await updateIdentity(tx, identityId, { revokedAt });
    const revokedCertificateIds = await updateIdentityCertificatesRevoked(
      tx,
      identityId,
      revokedAt,
    );
    await recordOperatorAction(tx, core, by, {
      action: "identity.revoke",
      target: { type: "collector_identity", id: identityId },
      reasonCode,
      details: { identity: identity.identity, certificate_ids: revokedCertificateIds },
    });
    await notifyRevocation(tx, identity.identity);
    return { identity: { ...identity, revokedAt }, revokedCertificateIds };
  });

/**
 * Revokes one certificate, and its successor if that is unused; idempotent. Also returns the identity's other active certificates, with
 * which the host can still connect. Throws 404 `not_found`.
 */
export const revokeCertificate = async (
  core: WriteCore,
  by: By,
  { certificateId, reasonCode }: { certificateId: string; reasonCode: string | null },
): Promise<{ certificate: CertificateRow; otherActiveCertificateIds: string[] }> =>
  core.db.transaction(async (tx) => {
    const unlocked = await findCertificate(tx, certificateId);
    const identity = unlocked && (await lockIdentity(tx, unlocked.identityId));
    const before = requireFound(identity && (await lockCertificate(tx, certificateId)));
    const revokedAt = new Date(core.clock.now());
    if (before.status !== "revoked") {
      const certificateIds = await updateCertificateRevoked(tx, certificateId, revokedAt);
      await recordOperatorAction(tx, core, by, {
        action: "certificate.revoke",
        target: { type: "certificate", id: certificateId },
        reasonCode,
        details: { identity: identity?.identity, certificate_ids: certificateIds },
      });
      await notifyRevocation(tx, identity?.identity ?? "");
    }
    const others = await findActiveCertificates(tx, before.identityId, revokedAt);
    return {
      certificate:
        before.status === "revoked" ? before : { ...before, status: "revoked", revokedAt },
      otherActiveCertificateIds: others.map((row) => row.id),
    };
  });

/** Returns one page of the identities, newest first. */
export const browseIdentities = (
  { db }: Pick<Core, "db">,
  filter: IdentityFilter,
  page: PageRequest,
): Promise<Paged<IdentityRow>> => listIdentities(db, filter, page);

/** Returns the identity. Throws 404 `not_found`. */
export const getIdentity = async ({ db }: Pick<Core, "db">, id: string): Promise<IdentityRow> =>
  requireFound(await findIdentity(db, id));

/** Returns one page of an identity's certificates, newest first. Throws 404 `not_found` for an unknown identity. */
export const browseCertificates = async (
  core: Pick<Core, "db">,
  identityId: string,
  page: PageRequest,
): Promise<Paged<CertificateRow>> => {
  await getIdentity(core, identityId);
  return listCertificates(core.db, identityId, page);
};

/** Actions that an admin may trigger now. A host renews and reports by itself later; only an agent that speaks OpAMP can be restarted. */
export const nudges = ["renew_now", "report_now", "restart"] as const;

/** One of `nudges`. */
type Nudge = (typeof nudges)[number];

/**
 * Makes a host renew, report or restart, immediately on its stream. Without a stream it reports with its next heartbeat, whose responses
 * say `renew_now` until it has renewed. Throws 404 `not_found`; 409 `conflict` for a revoked host, and for one that cannot restart.
 */
export const nudgeHost = async (
  core: WriteCore,
  by: By,
  { identityId, action }: { identityId: string; action: Nudge },
): Promise<void> =>
  core.db.transaction(async (tx) => {
    const identity = requireFound(await lockIdentity(tx, identityId));
    if (identity.revokedAt !== null)
      throw new Problem("conflict", { detail: "The identity is revoked" });
    if (action === "renew_now") await updateRenewalDue(tx, identityId, new Date(core.clock.now()));
    if (action === "restart" && !(await updateRestartAsked(tx, identityId, core.clock.now())))
      throw new Problem("conflict", {
        detail: "Only an agent that speaks OpAMP, and has reported, can be restarted",
      });
    const directive = action === "restart" ? "report_now" : action;
    await notifyHosts(tx, { action: directive, identityIds: [identityId], spreadMs: 0 });
    await recordOperatorAction(tx, core, by, {
      action: "host.nudge",
      target: { type: "collector_identity", id: identityId },
      details: { identity: identity.identity, nudge: action },
    });
  });
