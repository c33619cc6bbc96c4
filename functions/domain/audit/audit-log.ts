import type { ActorType } from "#drizzle/schema/audit.ts";
import { insertAuditEvents } from "#functions/store/audit/audit.ts";
import type { Executor } from "#functions/store/database/database.ts";
import type { Clock } from "#kit/clock.ts";
import { type Entropy, orderedUuidv7 } from "#kit/entropy.ts";
import type { AuditAction } from "#proto/audit-actions.ts";
import type { Operator } from "../operator/authenticate.ts";

/** The actor of an event, and the name that the log shows. */
export interface Actor {
  type: ActorType;
  id: string;
  display: string;
}

/** The origin of a request. */
export interface Origin {
  requestId: string;
  remoteAddress: string;
}

/** One entry of the log. `details` never contains a secret: no token, key, certificate request or payload. */
export interface AuditEntry {
  actor: Actor;
  action: AuditAction;
  target: { type: string; id: string };
  outcome: "success" | "failure";
  reasonCode?: string | null;
  reason?: string | null;
  origin?: Origin;
  details?: Record<string, unknown>;
}

/** The operator who requests a change, and the origin of the request. */
export interface By {
  caller: Operator;
  origin: Origin;
}

/** Core itself as the actor of an entry. */
export const coreActor: Actor = { type: "system", id: "svc-server", display: "svc-server" };

/** Returns an operator as the actor of an entry. */
export const operatorActor = (operator: Operator): Actor => ({
  type: operator.kind ?? "operator",
  id: operator.userId,
  display: operator.email,
});

/**
 * Writes one entry in the transaction of the change, so that both commit or neither does. An entry without a change needs a transaction
 * too: it writes two rows, the event and its mark for the hash chain.
 */
export const recordAudit = (
  db: Executor,
  needs: { clock: Clock; entropy: Entropy },
  entry: AuditEntry,
): Promise<void> => recordAudits(db, needs, [entry]);

/** Writes an action of an operator, like `recordAudit`. */
export const recordOperatorAction = (
  db: Executor,
  needs: { clock: Clock; entropy: Entropy },
  { caller, origin }: By,
  entry: Omit<AuditEntry, "actor" | "outcome" | "origin">,
): Promise<void> =>
  recordAudit(db, needs, { ...entry, actor: operatorActor(caller), outcome: "success", origin });

/** Writes several entries, like `recordAudit`. */
export const recordAudits = (
  db: Executor,
  { clock, entropy }: { clock: Clock; entropy: Entropy },
  entries: readonly AuditEntry[],
): Promise<void> =>
  insertAuditEvents(
    db,
    entries.map((entry) => ({
      id: orderedUuidv7({ clock, entropy }),
      occurredAt: new Date(clock.now()),
      actorType: entry.actor.type,
      actorId: entry.actor.id,
      actorDisplay: entry.actor.display,
      action: entry.action,
      targetType: entry.target.type,
      targetId: entry.target.id,
      outcome: entry.outcome,
      reasonCode: entry.reasonCode ?? null,
      reason: entry.reason ?? null,
      remoteAddr: entry.origin?.remoteAddress ?? null,
      requestId: entry.origin?.requestId ?? null,
      details: entry.details ?? {},
    })),
  );
