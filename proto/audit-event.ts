import * as v from "valibot";
import { Id, IsoTimestamp } from "./values.ts";

const TextOrNull = v.nullable(v.string());

/** The kinds of actor of an audit event. */
export const actorTypes = ["operator", "collector", "system"] as const;

/** The outcomes of an audit event. */
export const auditOutcomes = ["success", "failure"] as const;

/** An audit event in a response (docs/audit.md). An event that was just written has no `seq` and no hashes yet. */
export const AuditEventView = v.strictObject({
  id: Id,
  seq: v.nullable(v.number()),
  occurred_at: IsoTimestamp,
  actor: v.strictObject({ type: v.picklist(actorTypes), id: v.string(), display: v.string() }),
  action: v.string(),
  target: v.strictObject({ type: v.string(), id: v.string() }),
  outcome: v.picklist(auditOutcomes),
  reason_code: TextOrNull,
  reason: TextOrNull,
  remote_addr: TextOrNull,
  request_id: TextOrNull,
  details: v.record(v.string(), v.unknown()),
  prev_hash: TextOrNull,
  hash: TextOrNull,
});

/** An audit event in a response. */
export type AuditEventView = v.InferOutput<typeof AuditEventView>;

/** Response of `GET /v1/audit-events`: one page, newest first. */
export const AuditEventPage = v.strictObject({ items: v.array(AuditEventView), next_cursor: v.nullable(v.string()) });
