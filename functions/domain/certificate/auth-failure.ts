import type { Core } from "../../core.ts";
import { hasAuditEventSince } from "../../store/audit.ts";
import { updateAuthFailure } from "../../store/auth-failures.ts";
import { lockIdentityByName } from "../../store/identities.ts";
import { type Origin, recordAudit } from "../audit/record.ts";

type Needs = Pick<Core, "db" | "clock" | "entropy">;

/** One is kept at most this often, so that a flood of bad requests writes nothing. */
const intervalMs = 60_000;

/**
 * Keeps why an identity was last refused, at most once a minute; an unknown identity is ignored. Call it only after the
 * certificate's chain verified (contract, section 4). A `replaced` certificate that comes back is audited, once a minute too.
 */
export const recordAuthFailure = async (core: Needs, failure: AuthFailure): Promise<void> => {
  const { identity, reason, certificateId } = failure;
  const at = new Date(core.clock.now());
  const due = new Date(at.getTime() - intervalMs);
  await updateAuthFailure(core.db, { identity, reason, at, due });
  if (reason === "certificate_replaced" && certificateId !== undefined) {
    await recordReuse(core, { ...failure, certificateId }, due);
  }
};

const recordReuse = async (
  { db, clock, entropy }: Needs,
  { identity, reason, certificateId, origin }: AuthFailure & { certificateId: string },
  since: Date,
): Promise<void> => {
  const event = { action: "certificate.reuse_refused", targetId: certificateId } as const;
  if (await hasAuditEventSince(db, { ...event, since })) return;
  await db.transaction(async (tx) => {
    // Under the identity's lock, so that refusals at once leave one event.
    const found = await lockIdentityByName(tx, identity);
    if (found === undefined || (await hasAuditEventSince(tx, { ...event, since }))) return;
    await recordAudit(
      tx,
      { clock, entropy },
      {
        actor: { type: "collector", id: found.id, display: identity },
        action: event.action,
        target: { type: "certificate", id: certificateId },
        outcome: "failure",
        reason,
        ...(origin ? { origin } : {}),
      },
    );
  });
};

/** Whom and why. */
export interface AuthFailure {
  identity: string;
  /** The problem's code. */
  reason: string;
  certificateId?: string;
  origin?: Origin;
}
