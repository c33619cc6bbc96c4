import type { ReadCore } from "#functions/core.ts";
import { requireFound } from "#functions/problems.ts";
import type { Paged, PageRequest } from "#functions/store/database/statements.ts";
import type { Outage } from "#functions/store/fleet/counted-time.ts";
import {
  type DescribedWatch,
  findWatch,
  findWatchEvents,
  listWatches,
  type WatchEventRow,
  type WatchFilter,
} from "#functions/store/watch/watches.ts";
import { readCountingRules } from "../fleet/rules.ts";
import { outageAt, withoutPastSilence } from "./evaluate.ts";

/** The most events of a watch that are returned. */
const eventsMax = 200;

/** Returns one page of the watches, newest first. */
export const browseWatches = async (
  { db, clock }: ReadCore,
  filter: WatchFilter,
  page: PageRequest,
): Promise<Paged<DescribedWatch>> => {
  const { rows, next } = await listWatches(db, filter, page);
  const now = new Date(clock.now());
  return { rows: rows.map((row) => withoutPastSilence(row, now)), next };
};

/** Returns the outage of core during which no watch changes its state; undefined without one. */
export const findHold = async (core: ReadCore): Promise<Outage | undefined> => {
  const { now, outages } = await readCountingRules(core);
  return outageAt(now, outages);
};

/** Returns a watch with its events, newest first. Throws 404 `not_found`. */
export const describeWatch = async (
  { db, clock }: ReadCore,
  id: string,
): Promise<{ watch: DescribedWatch; events: WatchEventRow[] }> => {
  const watch = requireFound(await findWatch(db, id), "watch");
  return {
    watch: withoutPastSilence(watch, new Date(clock.now())),
    events: await findWatchEvents(db, id, eventsMax),
  };
};
