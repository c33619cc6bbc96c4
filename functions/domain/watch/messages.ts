import { uuidv7 } from "../../../kit/entropy.ts";
import { type FleetFilter, filterToParams } from "../../../proto/fleet-health/filter.ts";
import { withoutHistory } from "../../../proto/fleet-health/past.ts";
import { parseQuery } from "../../../proto/fleet-health/query-language/parse.ts";
import type { WatchMessageBody } from "../../../proto/watch/watch.ts";
import type { Core } from "../../core.ts";
import type { Executor } from "../../store/database/database.ts";
import { insertMessages } from "../../store/watch/messages.ts";
import type { WatchRow } from "../../store/watch/watches.ts";
import { fleetThresholds } from "../fleet/thresholds.ts";

/** The parts of core that make messages. */
export type MessageCore = Pick<Core, "config" | "watches" | "clock" | "entropy">;

/** Adds a message about a watch, as it stands at `at`, for each of its receivers. Lock the watch first. */
export const addMessages = async (
  tx: Executor,
  core: MessageCore,
  row: WatchRow,
  {
    type,
    at,
    reason = null,
  }: Pick<WatchMessageBody, "type"> & { at: Date; reason?: WatchMessageBody["data"]["reason"] },
): Promise<void> => {
  const body: WatchMessageBody = {
    type,
    timestamp: at.toISOString(),
    data: {
      watch: {
        id: row.id,
        name: row.name,
        filter: row.filter,
        more_than: row.moreThan,
        for_seconds: row.forSeconds,
      },
      count: row.count,
      since: row.firingSince?.toISOString() ?? null,
      common_factor: row.commonFactor,
      url: linkTo(core, row.filter, at),
      reason,
    },
  };
  const messages = row.receivers.map((receiver) => ({
    id: uuidv7(core),
    watchId: row.id,
    receiver,
    body,
    createdAt: new Date(core.clock.now()),
  }));
  await insertMessages(tx, messages);
};

/** Returns the address of the hosts of a watch on `/fleet` as they were at a time; as they are, where the filter has no history. */
const linkTo = ({ config, watches }: MessageCore, query: string, at: Date): string => {
  const { filter } = parseQuery(query, at);
  const params = filterToParams(filter);
  if (hasHistory(config, filter, at)) params.set("at", at.toISOString());
  return `${watches()?.webUrl ?? ""}/fleet${params.size === 0 ? "" : `?${params}`}`;
};

const hasHistory = (config: Core["config"], filter: FleetFilter, at: Date): boolean => {
  const { staleAfterSeconds, forwardingSeconds } = fleetThresholds(config);
  const thresholds = {
    stale_after_seconds: staleAfterSeconds,
    forwarding_seconds: forwardingSeconds,
  };
  return withoutHistory({ filter }, { at: at.getTime(), thresholds }) === undefined;
};
