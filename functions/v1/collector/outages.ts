import type { OutageView } from "../../../proto/fleet-health/outage.ts";
import type { Outage } from "../../store/fleet/counted-time.ts";

/** Returns the views of outages of core that had not ended at `since`, in milliseconds, as an optional property. */
export const outagesView = (
  outages: readonly Outage[],
  since = Number.NEGATIVE_INFINITY,
): { outages?: OutageView[] } => {
  const shown = outages.filter(({ endedAt }) => endedAt === null || endedAt.getTime() > since);
  return shown.length === 0 ? {} : { outages: shown.map(outageView) };
};

const outageView = ({ beganAt, endedAt, countedFrom, isClockSkip }: Outage): OutageView => ({
  began_at: beganAt.toISOString(),
  ended_at: endedAt?.toISOString() ?? null,
  counted_from: countedFrom?.toISOString() ?? null,
  ...(isClockSkip ? { is_clock_skip: true } : {}),
});
