/**
 * The filter of the fleet report, defined once: the API reads it from a query, the store turns it into SQL, the page reads it from what
 * an operator types. Absent parts do not filter; parts combine by AND, states by OR.
 */
import * as v from "valibot";
import { Identifier } from "../management/text.ts";
import { QueryInteger } from "../values.ts";
import { driftKinds, type FleetState, fleetStates, forwardings } from "./vocabulary.ts";

/** The longest duration that a filter takes: ten years. */
export const filterSecondsMax = 315_360_000;

/** Returns `states` without repetition, in order of precedence; undefined when none or all nine are given, as neither filters. */
export const distinctStates = (states: Iterable<FleetState>): readonly FleetState[] | undefined => {
  const given = new Set(states);
  return given.size === 0 || given.size === fleetStates.length
    ? undefined
    : fleetStates.filter((state) => given.has(state));
};

const State = v.picklist(fleetStates, "must be a health state");
const States = v.union(
  [
    v.array(State),
    v.pipe(
      State,
      v.transform((state) => [state]),
    ),
  ],
  "must be a health state",
);

const textPart = <Parameter extends string>(parameter: Parameter, charactersMax: number) => ({
  parameter,
  charactersMax,
  schema: Identifier(charactersMax),
});

/** Each part of a filter: its query parameter and the schema of the parameter's value; texts with their limit in characters. */
export const filterParts = {
  states: { parameter: "state", schema: States },
  /** Substring of device, identity, platform or version, in any case. */
  text: textPart("q", 256),
  device: textPart("device", 128),
  identity: textPart("identity", 2048),
  platform: textPart("platform", 65),
  version: textPart("version", 64),
  notVersion: textPart("not_version", 64),
  drift: { parameter: "drift", schema: v.picklist(driftKinds, "must be a kind of drift") },
  /** The last heartbeat is older than this; a host that never sent one is left out. */
  heartbeatOlderThanSeconds: { parameter: "heartbeat_older_than_seconds", schema: QueryInteger(0, filterSecondsMax) },
  /** The certificate, or its successor if that expires later, expires within this time or has expired. */
  expiresWithinSeconds: { parameter: "expires_within_seconds", schema: QueryInteger(0, filterSecondsMax) },
  /** The last heartbeat is within the threshold of `stale`. */
  heartbeat: { parameter: "heartbeat", schema: v.picklist(["recent"], "must be recent") },
  forwarding: { parameter: "forwarding", schema: v.picklist(forwardings, "must be forwarding, stopped or never") },
} as const;

type Parts = typeof filterParts;

/** Which hosts: every part is optional. */
export type FleetFilter = { readonly [Part in keyof Parts]?: Readonly<v.InferOutput<Parts[Part]["schema"]>> };

/** The query parameters of a filter, as entries of a schema. */
export const fleetFilterFields = Object.fromEntries(
  Object.values(filterParts).map(({ parameter, schema }) => [parameter, v.optional<v.GenericSchema>(schema)]),
) as { [Part in keyof Parts as Parts[Part]["parameter"]]: v.OptionalSchema<Parts[Part]["schema"], undefined> };

/** The parsed query parameters of a filter. */
export type FleetFilterQuery = v.InferOutput<v.ObjectSchema<typeof fleetFilterFields, undefined>>;

const partNames = Object.keys(filterParts) as (keyof Parts)[];

/** Returns `filter` with `change` applied, without the parts that are undefined. */
export const changeFilter = (
  filter: FleetFilter,
  change: { readonly [Part in keyof FleetFilter]?: FleetFilter[Part] | undefined },
): FleetFilter =>
  Object.fromEntries(Object.entries({ ...filter, ...change }).filter(([, value]) => value !== undefined));

/** Returns the filter of a parsed query. */
export const filterFromQuery = (query: FleetFilterQuery): FleetFilter =>
  changeFilter(Object.fromEntries(partNames.map((part) => [part, query[filterParts[part].parameter]])), {
    states: distinctStates(query.state ?? []),
  });

/** Returns the query parameters of a filter, in a fixed order. */
export const filterToParams = (filter: FleetFilter): URLSearchParams =>
  new URLSearchParams(
    partNames.flatMap((part) =>
      [filter[part] ?? []].flat().map((value): [string, string] => [filterParts[part].parameter, String(value)]),
    ),
  );
