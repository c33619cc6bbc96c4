import { insertAuditEvents } from "#functions/store/audit/audit.ts";
import type { Executor } from "#functions/store/database/database.ts";

/** A host that enrolled. */
interface SeededEnrollment {
  /** Distinguishes the enrollments of one time. */
  n: number;
  id: string;
  identity: string;
  enrolledAt: Date;
  address: string;
  policyId: string;
  tokenId: string;
  isReenrolled: boolean;
}

/** Writes the events of enrollments; `kind` distinguishes their ids from those of other kinds. */
export const insertEnrollments = (
  db: Executor,
  kind: string,
  enrollments: readonly SeededEnrollment[],
) =>
  insertAuditEvents(
    db,
    enrollments.map(
      ({ n, id, identity, enrolledAt, address, policyId, tokenId, isReenrolled }) => ({
        id: idAt(enrolledAt, kind, n),
        occurredAt: enrolledAt,
        actorType: "collector" as const,
        actorId: id,
        actorDisplay: identity,
        action: "collector.enroll",
        targetType: "collector_identity",
        targetId: id,
        outcome: "success" as const,
        reasonCode: null,
        reason: null,
        remoteAddr: address,
        requestId: null,
        details: { policy_id: policyId, token_id: tokenId, reenrolled: isReenrolled },
      }),
    ),
  );

/** The audit log finds events of a time by their ids, which rise with it. */
const idAt = (time: Date, kind: string, n: number): string => {
  const ms = time.getTime().toString(16).padStart(12, "0");
  return `${ms.slice(0, 8)}-${ms.slice(8)}-7000-${kind}-${n.toString(16).padStart(12, "0")}`;
};
