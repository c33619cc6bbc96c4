import type { ActorType } from "../../../drizzle/schema/audit.ts";
import type { Clock } from "../../../kit/clock.ts";
import { type Entropy, uuidv7 } from "../../../kit/entropy.ts";
import type { Core } from "../../core.ts";
import { type AuditFilter, insertAuditEvents, type ListedAuditEvent, listAuditEvents } from "../../store/audit.ts";
import type { Executor } from "../../store/database.ts";
import type { Paged, PageRequest } from "../../store/query-parts.ts";
import type { Operator } from "../operator/authenticate.ts";

/** Every action of the log, `noun.verb` (contract, section 10). */
export type AuditAction =
  | "enrollment_policy.create"
  | "enrollment_policy.freeze"
  | "bootstrap_token.create"
  | "bootstrap_token.revoke"
  | "collector.enroll"
  | "certificate.renew"
  | "certificate.revoke"
  | "certificate.reuse_refused"
  | "identity.revoke"
  | "identity.clone_suspected"
  | "config.publish"
  | "config.assign"
  | "config.clear"
  | "config.rollback"
  | "fleet.export"
  | "operator.sign_in"
  | "directory.sync"
  | "directory.refuse";

/** Who did it, and as whom the log shows them. */
export interface Actor {
  type: ActorType;
  id: string;
  display: string;
}

/** Where a request came from. */
export interface Origin {
  requestId: string;
  remoteAddress: string;
}

/** One entry of the log. `details` never holds a secret: no token, key, certificate request or payload. */
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

/** The actor that an operator is. */
export const operatorActor = (operator: Operator): Actor => ({
  type: "operator",
  id: operator.userId,
  display: operator.email,
});

/**
 * Writes one entry with the transaction of the change, so that neither is there without the other. An entry without a change wants a
 * transaction too: the event and its place among those to be chained are two rows.
 */
export const recordAudit = (
  db: Executor,
  needs: { clock: Clock; entropy: Entropy },
  entry: AuditEntry,
): Promise<void> => recordAudits(db, needs, [entry]);

/** Writes the entries of a group of changes, like `recordAudit`. */
export const recordAudits = (
  db: Executor,
  { clock, entropy }: { clock: Clock; entropy: Entropy },
  entries: readonly AuditEntry[],
): Promise<void> =>
  insertAuditEvents(
    db,
    entries.map((entry) => ({
      id: uuidv7({ clock, entropy }),
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

/** One page of the audit log, newest first. */
export const browseAuditEvents = (
  { db }: Pick<Core, "db">,
  filter: AuditFilter,
  page: PageRequest,
): Promise<Paged<ListedAuditEvent>> => listAuditEvents(db, filter, page);
