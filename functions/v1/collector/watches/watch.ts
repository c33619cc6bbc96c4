import { viewOf } from "#functions/http/route.ts";
import type { DescribedWatch } from "#functions/store/watch/watches.ts";
import { Watch } from "#proto/watch/watch.ts";

const view = viewOf(Watch);

/** Returns the view of a watch. */
export const watchView = (row: DescribedWatch): Watch => {
  const {
    isFiring,
    firingSince,
    contrarySince,
    silencedUntil: until,
    silencedBy,
    silenceReason: reason,
  } = row;
  return view({
    ...row,
    state: isFiring ? "firing" : contrarySince === null ? "inactive" : "pending",
    since: isFiring ? firingSince : contrarySince,
    silence: until && { until: until.toISOString(), by: silencedBy ?? "", reason },
  });
};
