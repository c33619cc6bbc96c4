import * as v from "valibot";
import { driftKinds, fleetSorts, fleetStates } from "../../../../proto/fleet-health.ts";
import { Identifier } from "../../../../proto/management/text.ts";
import { listFields, QueryInteger } from "../../../http/list.ts";
import type { FleetFilter } from "../../../store/fleet-rows.ts";

const State = v.picklist(fleetStates, "must be a health state");
const tenYearsSeconds = 315_360_000;

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
  q: v.optional(Identifier(256)),
  device: v.optional(Identifier(128)),
  identity: v.optional(Identifier(2048)),
  platform: v.optional(Identifier(65)),
  version: v.optional(Identifier(64)),
  not_version: v.optional(Identifier(64)),
  drift: v.optional(v.picklist(driftKinds, "must be a kind of drift")),
  heartbeat_older_than_seconds: v.optional(QueryInteger(0, tenYearsSeconds)),
  expires_within_seconds: v.optional(QueryInteger(0, tenYearsSeconds)),
  forwarding: v.optional(v.picklist(["never"], "must be never")),
};

/** The query of the report. */
export const HealthQuery = v.strictObject({
  ...filterFields,
  sort: v.optional(v.picklist(fleetSorts, "must be a column that the report sorts by"), "identity"),
  order: v.optional(v.picklist(["asc", "desc"], "must be asc or desc"), "asc"),
  ...listFields,
});

/** The filter that a query's fields are. */
export const filterOf = (query: v.InferOutput<typeof HealthQuery>): FleetFilter => ({
  ...(query.state ? { states: query.state } : {}),
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
  ...(query.forwarding === "never" ? { neverForwarded: true } : {}),
});
