import { mapValues } from "#kit/map-values.ts";
import type { FleetHealthRow } from "#proto/fleet-health/columns.ts";
import { reportedNumbers } from "#proto/management/reported-numbers.ts";

/** Returns the figures of a row's queue: null for all but the known ones. */
export const queueFigures = (
  known: Partial<FleetHealthRow["queue"]> = {},
): FleetHealthRow["queue"] => ({ ...mapValues(reportedNumbers.queue, () => null), ...known });
