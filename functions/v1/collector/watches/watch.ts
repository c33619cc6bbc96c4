import type { Watch } from "../../../../proto/watch/watch.ts";
import type { Outage } from "../../../store/fleet/counted-time.ts";
import type { DescribedWatch } from "../../../store/watch/watches.ts";
import { outagesView } from "../outages.ts";

/** Returns the view of a watch. */
export const watchView = (row: DescribedWatch): Watch => {
  const { silencedUntil, silencedBy, silenceReason, contrarySince } = row;
  return {
    id: row.id,
    name: row.name,
    filter: row.filter,
    more_than: row.moreThan,
    for_seconds: row.forSeconds,
    receivers: row.receivers,
    revision: row.revision,
    state: row.isFiring ? "firing" : contrarySince === null ? "inactive" : "pending",
    since: (row.isFiring ? row.firingSince : contrarySince)?.toISOString() ?? null,
    count: row.count,
    evaluated_at: row.evaluatedAt?.toISOString() ?? null,
    fault: row.fault,
    changed_at: row.changedAt.toISOString(),
    common_factor: row.commonFactor,
    explained_by: row.explainedBy,
    silence: silencedUntil ? { until: silencedUntil.toISOString(), by: silencedBy ?? "", reason: silenceReason } : null,
    waiting_messages: row.waitingMessages,
    created_at: row.createdAt.toISOString(),
    created_by_name: row.createdByName,
  };
};

/** Returns the view of the outage that holds every watch, as an optional property. */
export const heldByView = (outage: Outage | undefined) => {
  const [held_by] = outagesView(outage ? [outage] : []).outages ?? [];
  return held_by ? { held_by } : {};
};
