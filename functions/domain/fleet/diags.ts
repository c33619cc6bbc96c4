import type { Core, TimedCore, WriteCore } from "#functions/core.ts";
import { Problem, requireFound } from "#functions/problems.ts";
import {
  type IdentityRow,
  lockIdentity,
  notifyHosts,
} from "#functions/store/certificate/identities.ts";
import {
  type DiagRow,
  deleteDiagsBefore,
  findDiag,
  findOpenDiag,
  insertDiag,
  updateDiagAnswered,
} from "#functions/store/fleet/diags.ts";
import { dayMs } from "#kit/clock.ts";
import { uuidv7 } from "#kit/entropy.ts";
import type { DiagRequest } from "#proto/management/diag.ts";
import type { HostDiagView } from "#proto/operator/host-diag.ts";
import { type By, type Origin, recordOperatorAction } from "../audit/audit-log.ts";
import { admitProof, type ProvenCollector } from "../certificate/authenticate.ts";

/** The time for which a bundle is kept. */
const keptMs = dayMs;
/** The time that an answer may take beyond the host's next heartbeat, which may be lost once. */
const answerMarginSeconds = 30;

/** A request for diagnostics, with its state. */
interface HostDiag extends DiagRow {
  state: HostDiagView["state"];
  /** Core deletes it then. */
  expiresAt: Date;
}

const stateOf = (row: DiagRow, now: number): HostDiag["state"] => {
  if (row.refusal !== null) return "refused";
  if (row.bundle !== null) return "received";
  return now < row.answerBy.getTime() ? "pending" : "unanswered";
};

const withState = (row: DiagRow, now: number): HostDiag => ({
  ...row,
  state: stateOf(row, now),
  expiresAt: new Date(row.requestedAt.getTime() + keptMs),
});

/**
 * Requests the diagnostics of a host: immediately on its stream, and in each response to its heartbeats. Returns the open request if there
 * is one. Throws 404 `not_found`; 409 `conflict` for a revoked host.
 */
export const requestDiag = async (
  core: WriteCore & Pick<Core, "config">,
  by: By,
  { identityId }: { identityId: string },
): Promise<HostDiag> =>
  core.db.transaction(async (tx) => {
    const identity = requireFound(await lockIdentity(tx, identityId));
    if (identity.revokedAt !== null)
      throw new Problem("conflict", { detail: "The identity is revoked" });
    const now = core.clock.now();
    const requestedAt = new Date(now);
    const open = await findOpenDiag(tx, { identityId, at: requestedAt });
    const answerSeconds = 2 * core.config.heartbeatIntervalSeconds + answerMarginSeconds;
    const row: DiagRow = open ?? {
      id: uuidv7(core),
      identityId,
      requestedAt,
      requestedBy: by.caller.userId,
      answerBy: new Date(now + answerSeconds * 1000),
      answeredAt: null,
      bundle: null,
      refusal: null,
    };
    if (open === undefined) await insertDiag(tx, row);
    const directive = { action: "send_diag", requestId: row.id } as const;
    await notifyHosts(tx, { ...directive, identityIds: [identityId], spreadMs: 0 });
    await recordOperatorAction(tx, core, by, entryOf("host_diag.request", identity, row.id));
    return withState(row, now);
  });

/** Returns a request of a host. Throws 404 `not_found`, also once it is a day old. */
export const getDiag = async (
  { db, clock }: TimedCore,
  { identityId, diagId }: { identityId: string; diagId: string },
): Promise<HostDiag> => {
  const now = clock.now();
  const row = requireFound(
    await findDiag(db, { id: diagId, identityId, after: new Date(now - keptMs) }),
  );
  return withState(row, now);
};

/**
 * Returns the bundle of a request, audited. Throws 404 `not_found`, also once it is a day old; 409 `diag_pending`, `diag_forbidden`,
 * `diag_too_large` or `diag_unanswered`.
 */
export const readDiag = async (
  core: WriteCore,
  by: By,
  ids: { identityId: string; diagId: string },
): Promise<{ identity: IdentityRow; bundle: string }> => {
  const { state, refusal, bundle } = await getDiag(core, ids);
  if (bundle === null) {
    if (state === "refused")
      throw new Problem(refusal === "too_large" ? "diag_too_large" : "diag_forbidden");
    throw new Problem(state === "pending" ? "diag_pending" : "diag_unanswered");
  }
  return core.db.transaction(async (tx) => {
    const identity = requireFound(await lockIdentity(tx, ids.identityId));
    await recordOperatorAction(tx, core, by, entryOf("host_diag.read", identity, ids.diagId));
    return { identity, bundle };
  });
};

/**
 * Stores the calling host's answer to a request of core. Returns when. Throws 409 `diag_not_requested` for any other, also for a second
 * answer and a late one, and the problems of `admitProof`.
 */
export const answerDiag = async (
  core: WriteCore,
  caller: ProvenCollector,
  { request_id: id, bundle, refusal }: DiagRequest,
  origin: Origin,
): Promise<Date> => {
  const { identityId } = await admitProof(core, "diag", caller, origin);
  const answeredAt = new Date(core.clock.now());
  const answer = { bundle: bundle ?? null, refusal: refusal ?? null, answeredAt };
  if (!(await updateDiagAnswered(core.db, { id, identityId, ...answer })))
    throw new Problem("diag_not_requested");
  return answeredAt;
};

/** Deletes requests that are a day old. Returns how many. */
export const deleteOldDiags = ({ db, clock }: TimedCore): Promise<number> =>
  deleteDiagsBefore(db, new Date(clock.now() - keptMs));

const entryOf = (
  action: "host_diag.request" | "host_diag.read",
  identity: IdentityRow,
  diagId: string,
) => ({
  action,
  target: { type: "collector_identity", id: identity.id },
  details: { identity: identity.identity, diag_id: diagId },
});
