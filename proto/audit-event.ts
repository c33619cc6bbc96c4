import * as v from "valibot";
import { Id, IsoTimestamp, NumberOrNull, TextOrNull } from "./values.ts";

/** The kinds of actor of an audit event. */
const actorTypes = ["operator", "workload", "collector", "system"] as const;

/** The outcomes of an audit event. */
export const auditOutcomes = ["success", "failure"] as const;

/** Who acted: operators and workloads, or hosts and core. */
export const auditActors = ["people", "machines"] as const;

/** One of `auditActors`. */
export type AuditActors = (typeof auditActors)[number];

/** An audit event in a response (docs/audit.md). An event that was just written has no `seq` and no hashes yet. */
export const AuditEventView = v.strictObject({
  id: Id,
  seq: NumberOrNull,
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

/** The types of records whose names audit events carry as ids. */
const namedRecordTypes = [
  "collector_identity",
  "certificate",
  "collector_config",
  "enrollment_policy",
  "bootstrap_token",
  "rollout",
  "watch",
  "person",
] as const;

/** One of `namedRecordTypes`. */
export type NamedRecordType = (typeof namedRecordTypes)[number];

/** The name of a record that an event refers to by its id. */
export const NamedRecord = v.strictObject({
  type: v.picklist(namedRecordTypes),
  /** An identity, a serial number, a config's hash, the name of a policy, the prefix of a token, an email; of a rollout, its config. */
  name: v.string(),
  /** A certificate's identity, a config's name, a token's policy, a person's name, a rollout's filter. */
  detail: TextOrNull,
  /** The host that the record belongs to. */
  identity_id: v.nullable(Id),
});

/** The name of a record that an event refers to by its id. */
export type NamedRecord = v.InferOutput<typeof NamedRecord>;

/** The names of the records to which events refer, by id: targets, actors, and ids in their details. */
export const RecordNames = v.record(v.string(), NamedRecord);

/** The names of the records to which events refer, by id. */
export type RecordNames = v.InferOutput<typeof RecordNames>;

/** Response of `GET /v1/audit-events`: one page, newest first. */
export const AuditEventPage = v.strictObject({
  items: v.array(AuditEventView),
  next_cursor: TextOrNull,
  names: RecordNames,
});

/** Response of `GET /v1/audit-events`. */
export type AuditEventPage = v.InferOutput<typeof AuditEventPage>;

/** Response of `GET /v1/audit-events/chain` (docs/audit.md). */
export const AuditChainView = v.strictObject({
  /** The newest event in the chain; null before the first. */
  head: v.nullable(v.strictObject({ seq: v.number(), hash: v.string() })),
  /** Events that wait for their place in the chain; counted up to 10,000. */
  pending: v.number(),
  /** Each event up to `seq` was compared with its link, at the earliest at `checked_since`, and the last one at `checked_at`. */
  verified: v.nullable(
    v.strictObject({
      seq: v.number(),
      hash: v.string(),
      checked_at: IsoTimestamp,
      checked_since: IsoTimestamp,
    }),
  ),
  /** The first fault that a check found; events from there on are not verified. */
  fault: v.nullable(
    v.strictObject({
      kind: v.picklist(["gap", "chain_broken", "event_missing", "event_edited"]),
      seq: v.number(),
    }),
  ),
});

/** Response of `GET /v1/audit-events/chain`. */
export type AuditChainView = v.InferOutput<typeof AuditChainView>;
