import type { WriteCore } from "#functions/core.ts";
import { Problem, requireFound } from "#functions/problems.ts";
import { updateRenewalDue } from "#functions/store/certificate/certificates.ts";
import { lockIdentity, notifyHosts } from "#functions/store/certificate/identities.ts";
import { type Origin, recordOperatorAction } from "../audit/audit-log.ts";
import type { Operator } from "../operator/authenticate.ts";

/** Actions that a host takes by itself later, and an admin may trigger now. */
export const nudges = ["renew_now", "report_now"] as const;

/** One of `nudges`. */
type Nudge = (typeof nudges)[number];

/**
 * Makes a host renew or report, immediately on its stream. Without a stream it reports with its next heartbeat, whose responses say
 * `renew_now` until it has renewed. Throws 404 `not_found`; 409 `conflict` for a revoked host.
 */
export const nudgeHost = async (
  core: WriteCore,
  operator: Operator,
  { identityId, action }: { identityId: string; action: Nudge },
  origin: Origin,
): Promise<void> =>
  core.db.transaction(async (tx) => {
    const identity = requireFound(await lockIdentity(tx, identityId));
    if (identity.revokedAt !== null)
      throw new Problem("conflict", { detail: "The identity is revoked" });
    if (action === "renew_now") await updateRenewalDue(tx, identityId, new Date(core.clock.now()));
    await notifyHosts(tx, { action, identityIds: [identityId], spreadMs: 0 });
    await recordOperatorAction(tx, core, operator, origin, {
      action: "host.nudge",
      target: { type: "collector_identity", id: identityId },
      details: { identity: identity.identity, nudge: action },
    });
  });
