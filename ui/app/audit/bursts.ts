import type { AuditEventView } from "#proto/audit-event.ts";
import { formatTimestamp, type TimeZone } from "../format/format.ts";

/** Events that say the same, each within minutes of the next one, whatever happened between them: the newest, and the others. */
export interface Burst {
  newest: AuditEventView;
  others: AuditEventView[];
}

/** A longer pause ends a burst. */
const pauseMs = 600_000;

/** Returns the day of a time in a zone: `2026-11-20`. */
export const dayOf = (at: string | number, zone: TimeZone): string =>
  formatTimestamp(at, zone).slice(0, 10);

/** Returns what the events of a burst have in common: their hosts may differ, an operator and any other record not. */
const keyOf = ({
  actor,
  action,
  target,
  outcome,
  reason_code: code,
  reason,
}: AuditEventView): string =>
  JSON.stringify([
    actor.type,
    actor.type === "collector" ? "" : actor.id,
    action,
    /^(collector_identity|certificate)$/.test(target.type) ? "" : target.id,
    outcome,
    code,
    reason,
  ]);

/** Returns when a burst began, unless in the second of its newest event. */
export const beginOf = ({ newest, others }: Burst): string | undefined =>
  others
    .map(({ occurred_at: at }) => at)
    .findLast((at) => at.slice(0, 19) !== newest.occurred_at.slice(0, 19));

/** Returns events, newest first, as bursts of one day. */
export const burstsOf = (events: readonly AuditEventView[], zone: TimeZone): Burst[] => {
  const bursts: Burst[] = [];
  const continues = (event: AuditEventView, { occurred_at: at }: AuditEventView) =>
    dayOf(at, zone) === dayOf(event.occurred_at, zone) &&
    Date.parse(at) - Date.parse(event.occurred_at) <= pauseMs;
  for (const event of events) {
    const burst = bursts.findLast(({ newest }) => keyOf(newest) === keyOf(event));
    if (burst && continues(event, burst.others.at(-1) ?? burst.newest)) burst.others.push(event);
    else bursts.push({ newest: event, others: [] });
  }
  return bursts;
};
