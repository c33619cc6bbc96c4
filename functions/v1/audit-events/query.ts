import * as v from "valibot";
import { auditOutcomes } from "../../../proto/audit-event.ts";
import { filterSecondsMax } from "../../../proto/fleet-health/vocabulary.ts";
import { Identifier, parseTimestamp, Timestamp } from "../../../proto/management/text.ts";
import { QueryInteger } from "../../../proto/values.ts";
import type { AuditQuery } from "../../domain/audit/browse.ts";

const at = v.pipe(
  Timestamp,
  v.transform((text) => new Date(parseTimestamp(text) ?? 0)),
);

const Action = Identifier(64);

const Actions = v.union(
  [
    v.pipe(v.array(Action), v.maxLength(64, "must be given at most 64 times")),
    v.pipe(
      Action,
      v.transform((action) => [action]),
    ),
  ],
  "must be an action",
);

/** The query fields that select audit events; `action` and `not_action` are repeatable. */
export const auditFilterFields = {
  action: v.optional(Actions),
  not_action: v.optional(Actions),
  actor: v.optional(Identifier(2048)),
  not_actor: v.optional(Identifier(2048)),
  target: v.optional(Identifier(2048)),
  outcome: v.optional(v.picklist(auditOutcomes, "must be success or failure")),
  reason: v.optional(Identifier(256)),
  within_seconds: v.optional(QueryInteger(1, filterSecondsMax)),
  older_than_seconds: v.optional(QueryInteger(1, filterSecondsMax)),
  since: v.optional(at),
  until: v.optional(at),
  q: v.optional(Identifier(256)),
};

/** Parsed query fields. */
type AuditFilterQuery = v.InferOutput<v.ObjectSchema<typeof auditFilterFields, undefined>>;

/** Returns the filter of parsed query fields at `now`. */
export const auditQueryOf = (query: AuditFilterQuery, now: number): AuditQuery => {
  const {
    action,
    not_action: notAction,
    actor,
    not_actor: notActor,
    target,
    outcome,
    reason,
    within_seconds: within,
    older_than_seconds: olderThan,
    q,
  } = query;
  const ago = (seconds: number | undefined) => (seconds === undefined ? [] : [now - seconds * 1000]);
  const starts = [...(query.since ? [query.since.getTime()] : []), ...ago(within)];
  const ends = [...(query.until ? [query.until.getTime()] : []), ...ago(olderThan)];
  const since = starts.length > 0 ? new Date(Math.max(...starts)) : undefined;
  const until = ends.length > 0 ? new Date(Math.min(...ends)) : undefined;
  return {
    ...(action ? { actions: [...new Set(action)] } : {}),
    ...(notAction ? { notActions: [...new Set(notAction)] } : {}),
    ...(actor ? { actor } : {}),
    ...(notActor ? { notActor } : {}),
    ...(target ? { target } : {}),
    ...(outcome ? { outcome } : {}),
    ...(reason ? { reason } : {}),
    ...(since ? { since } : {}),
    ...(until ? { until } : {}),
    ...(q ? { text: q } : {}),
  };
};
