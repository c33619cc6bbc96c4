import * as v from "valibot";
import { filterCharactersMax, filterSecondsMax, forwardings } from "../../../../proto/fleet-health/filter.ts";
import { driftKinds, fleetSorts, fleetStates } from "../../../../proto/fleet-health/vocabulary.ts";
import { Identifier } from "../../../../proto/management/text.ts";
import { listFields, QueryInteger } from "../../../http/list.ts";
import type { FleetFilter } from "../../../store/fleet-rows.ts";

const State = v.picklist(fleetStates, "must be a health state");

/** Which collectors: the same on the report and on everything derived from it. */
export const filterFields = {
  state: v.optional(
    v.union(
      [
        v.array(State),
        v.pipe(
          State,
          v.transform((state) => [state]),
        ),
      ],
      "must be a health state",
    ),
  ),
  q: v.optional(Identifier(filterCharactersMax.q)),
  device: v.optional(Identifier(filterCharactersMax.device)),
  identity: v.optional(Identifier(filterCharactersMax.identity)),
  platform: v.optional(Identifier(filterCharactersMax.platform)),
  version: v.optional(Identifier(filterCharactersMax.version)),
  not_version: v.optional(Identifier(filterCharactersMax.not_version)),
  drift: v.optional(v.picklist(driftKinds, "must be a kind of drift")),
  heartbeat_older_than_seconds: v.optional(QueryInteger(0, filterSecondsMax)),
  expires_within_seconds: v.optional(QueryInteger(0, filterSecondsMax)),
  heartbeat: v.optional(v.picklist(["recent"], "must be recent")),
  forwarding: v.optional(v.picklist(forwardings, "must be never or ever")),
};

/** The query of the report. */
export const HealthQuery = v.strictObject({
  ...filterFields,
  sort: v.optional(v.picklist(fleetSorts, "must be a column that the report sorts by"), "identity"),
  order: v.optional(v.picklist(["asc", "desc"], "must be asc or desc"), "asc"),
  ...listFields,
});

/** A query of filters alone. */
export const FilterQuery = v.strictObject(filterFields);

/** The filter that a query's fields are. */
export const filterOf = (query: v.InferOutput<typeof FilterQuery>): FleetFilter => ({
  // Each once: a query of 8 KiB could name one state some hundred times, and the database would judge every row as often.
  ...(query.state ? { states: [...new Set(query.state)] } : {}),
  ...(query.q ? { text: query.q } : {}),
  ...(query.device ? { device: query.device } : {}),
  ...(query.identity ? { identity: query.identity } : {}),
  ...(query.platform ? { platform: query.platform } : {}),
  ...(query.version ? { version: query.version } : {}),
  ...(query.not_version ? { notVersion: query.not_version } : {}),
  ...(query.drift ? { drift: query.drift } : {}),
  ...(query.heartbeat_older_than_seconds === undefined
    ? {}
    : { heartbeatOlderThanSeconds: query.heartbeat_older_than_seconds }),
  ...(query.expires_within_seconds === undefined ? {} : { expiresWithinSeconds: query.expires_within_seconds }),
  ...(query.heartbeat === "recent" ? { heartbeatRecent: true } : {}),
  ...(query.forwarding ? { forwarding: query.forwarding } : {}),
});
