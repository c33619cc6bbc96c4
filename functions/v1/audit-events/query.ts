import * as v from "valibot";
import type { AuditQuery } from "#functions/domain/audit/browse.ts";
import { auditOutcomes } from "#proto/audit-event.ts";
import { filterSecondsMax } from "#proto/fleet-health/vocabulary.ts";
import { DateFromTimestamp, Identifier, QueryInteger, Repeatable } from "#proto/values.ts";

const Actions = Repeatable(Identifier(64), {
  expected: "must be an action",
  countMax: 64,
  tooMany: "must be given at most 64 times",
});

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
  since: v.optional(DateFromTimestamp),
  until: v.optional(DateFromTimestamp),
  q: v.optional(Identifier(256)),
};

/** Parsed query fields. */
type AuditFilterQuery = v.InferOutput<v.ObjectSchema<typeof auditFilterFields, undefined>>;

/** Returns the filter of parsed query fields at `now`. */
export const auditQueryOf = (query: AuditFilterQuery, now: number): AuditQuery => {
  const { within_seconds: within, older_than_seconds: olderThan } = query;
  const ago = (seconds: number | undefined) =>
    seconds === undefined ? [] : [now - seconds * 1000];
  const starts = [...(query.since ? [query.since.getTime()] : []), ...ago(within)];
  const ends = [...(query.until ? [query.until.getTime()] : []), ...ago(olderThan)];
  const since = starts.length > 0 ? new Date(Math.max(...starts)) : undefined;
  const until = ends.length > 0 ? new Date(Math.min(...ends)) : undefined;
  return {
    actions: query.action && [...new Set(query.action)],
    notActions: query.not_action && [...new Set(query.not_action)],
    actor: query.actor,
    notActor: query.not_actor,
    target: query.target,
    outcome: query.outcome,
    reason: query.reason,
    since,
    until,
    text: query.q,
  };
};
