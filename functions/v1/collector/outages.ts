import { viewOf } from "#functions/http/route.ts";
import type { Outage } from "#functions/store/fleet/counted-time.ts";
import { OutageView } from "#proto/values.ts";

/** Returns the views of outages of core that had not ended at `since`, in milliseconds, as an optional property. */
export const outagesView = (
  outages: readonly Outage[],
  since = Number.NEGATIVE_INFINITY,
): { outages?: OutageView[] } => {
  const shown = outages.filter(({ endedAt }) => endedAt === null || endedAt.getTime() > since);
  return shown.length === 0 ? {} : { outages: shown.map(outageView) };
};

const view = viewOf(OutageView);

const outageView = (outage: Outage): OutageView =>
  view({ ...outage, isClockSkip: outage.isClockSkip || undefined });

/** Returns the outage during which nothing changes its state, as an optional property. */
export const heldByView = (outage: Outage | undefined): { held_by?: OutageView } =>
  outage ? { held_by: outageView(outage) } : {};
