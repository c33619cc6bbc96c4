import type { Core } from "../../core.ts";
import { updateAuthFailure } from "../../store/auth-failures.ts";
import { type Origin, recordAudit } from "../audit/record.ts";

/** One is kept at most this often, so that a flood of bad requests writes nothing. */
const intervalMs = 60_000;

/**
 * Keeps why an identity was last refused, at most once a minute; an unknown identity is ignored. Call it only after the
 * certificate's chain verified (contract, section 4). A `replaced` certificate that comes back is audited with it.
 */
export const recordAuthFailure = async (
  { db, clock, entropy }: Pick<Core, "db" | "clock" | "entropy">,
  { identity, reason, certificateId, origin }: AuthFailure,
): Promise<void> => {
  const at = new Date(clock.now());
  const due = new Date(at.getTime() - intervalMs);
  const identityId = await updateAuthFailure(db, { identity, reason, at, due });
  if (identityId === undefined || reason !== "certificate_replaced") return;
  await recordAudit(
    db,
    { clock, entropy },
    {
      actor: { type: "collector", id: identityId, display: identity },
      action: "certificate.reuse_refused",
      target: { type: "certificate", id: certificateId ?? "" },
      outcome: "failure",
      reason,
      ...(origin ? { origin } : {}),
    },
  );
};

/** Whom and why. */
export interface AuthFailure {
  identity: string;
  /** The problem's code. */
  reason: string;
  certificateId?: string;
  origin?: Origin;
}
