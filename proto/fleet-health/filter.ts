/**
 * The filter of the fleet report, defined once: the API reads it from a query, the store turns it into SQL, the page and the admin
 * command read it from what an operator types (`query-language/`). Absent parts do not filter; parts combine by AND. Of a list of values
 * a host matches one, except for `conjunctiveParts`. Each part has a negated one, which excludes the hosts that match any of its values.
 */
import * as v from "valibot";
import { labelPair } from "../labels.ts";
import { type FigureFilter, figureFilters } from "../management/reported-numbers.ts";
import { Identifier, parsePastTime, parseTimestamp, QueryInteger } from "../values.ts";
import type { FleetThresholdsView } from "./report.ts";
import {
  attentionKinds,
  budgetKinds,
  configProgress,
  driftKinds,
  type ExportKind,
  enrolledStatuses,
  type FleetSort,
  type FleetState,
  filterCountMax,
  filterSecondsMax,
  fleetConditions,
  fleetStates,
  forwarderKinds,
  forwardings,
  heartbeatKinds,
  sortsOfNow,
} from "./vocabulary.ts";

/** The most values of one parameter. */
export const filterValuesMax = 100;

/** Returns `states` without repetition, in order of precedence; undefined when none or all nine are given, as neither filters. */
export const distinctStates = (states: Iterable<FleetState>): readonly FleetState[] | undefined => {
  const given = new Set(states);
  return given.size === 0 || given.size === fleetStates.length
    ? undefined
    : fleetStates.filter((state) => given.has(state));
};

/** Returns the message about a value. That it is not a list is of no use to the caller. */
const messageOf = (issues: readonly { message: string }[]) =>
  issues.find(({ message }) => !message.startsWith("Invalid"))?.message;

/** A parameter that may occur several times, as a list of distinct values in the order given. */
const several = <Item extends v.GenericSchema<string>>(value: Item, expected: string) => {
  const single = v.pipe(
    value,
    v.transform((text) => [text]),
  );
  const schema = v.pipe(
    v.union(
      [v.array(value), single],
      ({ issues = [] }) => messageOf(issues) ?? expected,
    ) as v.GenericSchema<string | string[], readonly v.InferOutput<Item>[]>,
    v.transform((values): readonly v.InferOutput<Item>[] => [...new Set(values)]),
    v.maxLength(filterValuesMax, `must be given at most ${filterValuesMax} times`),
  );
  return { schema, value };
};

const text = (charactersMax: number) => ({
  ...several(Identifier(charactersMax), "must be text"),
  charactersMax,
});

const names = <const Names extends readonly string[]>(choices: Names, expected: string) => ({
  ...several(v.picklist(choices, expected), expected),
  choices,
});

/** Sorts pairs by their keys, so that equal filters have one form. */
const sorted = (pairs: readonly string[]): readonly string[] => pairs.toSorted();

const labels = () => {
  const expected = "must be a label, such as env:prod, or env:* for any value";
  const { schema, value } = several(
    v.pipe(v.string(expected), v.regex(labelPair, expected)),
    expected,
  );
  return { schema: v.pipe(schema, v.transform(sorted)), value, sorted };
};

const seconds = { schema: QueryInteger(0, filterSecondsMax) };

const count = { schema: QueryInteger(0, filterCountMax) };

/** A comparison with a version: `<1.4`, `>=1.2.0-rc.1`. Parts that are missing are 0. */
export const versionRangePattern =
  /^([<>]=?)((?:0|[1-9]\d{0,8})(?:\.(?:0|[1-9]\d{0,8})){0,2}(?:-[0-9A-Za-z.-]{1,32})?)$/;

const isVersionRange = (text: string) => {
  const [, , version = ""] = versionRangePattern.exec(text) ?? [];
  const [numbers = "", ...prerelease] = version.split("-");
  return version !== "" && (prerelease.length === 0 || numbers.split(".").length === 3);
};

const VersionRange = v.pipe(
  v.string(),
  v.check(isVersionRange, "must be <, <=, > or >= and a version, such as <1.4"),
);

/** The fewest digits of a config hash. */
export const hashDigitsMin = 6;

const HashPrefix = v.pipe(
  v.string(),
  v.regex(/^[0-9a-f]{6,64}$/, `must be ${hashDigitsMin} to 64 lowercase hexadecimal digits`),
);
const hashes = several(HashPrefix, "must be the beginning of a config hash");

/** A time to the second, as the rows have it: RFC 3339 in UTC. */
const isSecond = (text: string) => text.length === 20 && parseTimestamp(text) !== undefined;
const secondExpected =
  "must be an RFC 3339 time in UTC to the second, such as 2026-01-31T08:00:00Z";

/** Writes a time to the second, as `expires` and `silent_since` take it; cuts milliseconds. */
export const toSecond = (at: Date): string => `${at.toISOString().slice(0, 19)}Z`;

/** Reports whether a text is `FROM..TO`, two times to the second, the first before the second. */
const isTimeRange = (text: string) => {
  const [from = "", to = "", ...others] = text.split("..");
  return others.length === 0 && isSecond(from) && isSecond(to) && from < to;
};
const rangeExpected = "must be FROM..TO, both RFC 3339 times in UTC to the second, FROM before TO";

type WithNegated<Part extends string, Parameter extends string, Definition> = Readonly<
  Record<Part, Definition & { parameter: Parameter }> &
    Record<`not${Capitalize<Part>}`, Definition & { parameter: `not_${Parameter}` }>
>;

/** Returns a part with its parameter, and the negated part. */
const withNegated = <const Part extends string, const Parameter extends string, Definition>(
  part: Part,
  parameter: Parameter,
  definition: Definition,
) =>
  ({
    [part]: { ...definition, parameter },
    [`not${part.charAt(0).toUpperCase()}${part.slice(1)}`]: {
      ...definition,
      parameter: `not_${parameter}`,
    },
  }) as WithNegated<Part, Parameter, Definition>;

const states = names(fleetStates, "must be a health state");

/** Each part of a filter: its query parameter and the schema of the parameter's value; texts with their limit in characters. */
export const filterParts = {
  /** The only part without a negated one: `not_state` is read as the other states. */
  states: { ...states, parameter: "state" },
  ...withNegated("attention", "attention", names(attentionKinds, "must be needed")),
  /**
   * A substring of device, hostname, identity, platform or version, in any case; or the id of a host or a certificate, or the serial number
   * or fingerprint of a certificate, as tools print them. A host matches every one.
   */
  ...withNegated("text", "q", text(256)),
  ...withNegated("device", "device", text(128)),
  ...withNegated("hostname", "hostname", text(255)),
  ...withNegated("identity", "identity", text(2048)),
  /** A platform, or an operating system: `linux` matches `linux/amd64`. */
  ...withNegated("platform", "platform", text(65)),
  /** A version; `*` stands for any characters, as in `1.8.*`. */
  ...withNegated("version", "version", text(64)),
  /** Compared by SemVer; a version that is not SemVer matches none. A host matches every one. */
  ...withNegated(
    "versionRange",
    "version_range",
    several(VersionRange, "must be a comparison with a version"),
  ),
  /** The beginning of the hash of the desired, the running or the last known good config. */
  ...withNegated("config", "config", hashes),
  ...withNegated("label", "label", labels()),
  /** The machine of the core that received the last heartbeat. */
  ...withNegated("core", "core", text(253)),
  /** The /24 or /64 that the last heartbeat came from, as core saw it. */
  ...withNegated("subnet", "subnet", text(64)),
  /** The name of the enrollment policy. */
  ...withNegated("policy", "policy", text(128)),
  /** A source of telemetry of which the host has accepted records since the UTC day before, by its accounts. */
  ...withNegated("source", "source", text(200)),
  ...withNegated("drift", "drift", names(driftKinds, "must be a kind of drift")),
  /** The config that the host should run: the assigned one, else the one that its heartbeat reports. */
  ...withNegated("desiredConfig", "desired_config", hashes),
  /** The config that the last heartbeat names. */
  ...withNegated("runningConfig", "running_config", hashes),
  ...withNegated(
    "progress",
    "progress",
    names(configProgress, "must be silent, running, failed or drifted"),
  ),
  /** A condition that applies, even if another one decides the state. */
  ...withNegated("condition", "condition", names(fleetConditions, "must be a condition")),
  ...withNegated("heartbeat", "heartbeat", names(heartbeatKinds, "must be recent or never")),
  ...withNegated(
    "forwarding",
    "forwarding",
    names(forwardings, "must be forwarding, stopped or never"),
  ),
  /** As the last heartbeat reports it; a host that never sent one is neither. */
  ...withNegated(
    "forwarder",
    "forwarder",
    names(forwarderKinds, "must be connected or disconnected"),
  ),
  /** How the inventory of expected hosts and the fleet agree on the host; without an inventory a host has none. */
  ...withNegated(
    "inventory",
    "inventory",
    names(enrolledStatuses, "must be expected, unexpected or gone"),
  ),
  /** `held`: core stores nothing more of it in this hour, because it has sent its budget. */
  ...withNegated("budget", "budget", names(budgetKinds, "must be held")),
  /** `failed`: an authentication failed in the last 24 hours; `failing`: and the host has sent no heartbeat since. */
  ...withNegated("auth", "auth", names(["failed", "failing"], "must be failed or failing")),
  /** The last heartbeat is older than this; a host that never sent one is left out. */
  ...withNegated("heartbeatOlderThanSeconds", "heartbeat_older_than_seconds", seconds),
  ...withNegated("heartbeatWithinSeconds", "heartbeat_within_seconds", seconds),
  /** The last envelope is older than this; a host that never forwarded is left out. */
  ...withNegated("envelopeOlderThanSeconds", "envelope_older_than_seconds", seconds),
  ...withNegated("envelopeWithinSeconds", "envelope_within_seconds", seconds),
  /** The host has forwarded, but nothing since this time. */
  ...withNegated("silentSince", "silent_since", {
    schema: v.pipe(v.string("must be given once"), v.check(isSecond, secondExpected)),
  }),
  /** Within this time the host was enrolled or revoked, its version or config changed, or a condition began or ended. */
  ...withNegated("changedWithinSeconds", "changed_within_seconds", seconds),
  /** An hour that began within this time is incomplete: short, late or silent, or core was out. */
  ...withNegated("incompleteWithinSeconds", "incomplete_within_seconds", seconds),
  /** The certificate, or its successor if that expires later, expires within this time or has expired. */
  ...withNegated("expiresWithinSeconds", "expires_within_seconds", seconds),
  /** It expires in one of these ranges `FROM..TO`, the end excluded. */
  ...withNegated(
    "expires",
    "expires",
    several(v.pipe(v.string(), v.check(isTimeRange, rangeExpected)), rangeExpected),
  ),
  /** The collector dropped, and core rejected (dead letters), more records than this, in all. */
  ...withNegated("droppedMoreThan", "dropped_more_than", count),
  /** The queue is fuller than this share of its limit. */
  ...withNegated("queueAbovePercent", "queue_above_percent", { schema: QueryInteger(0, 100) }),
  /** The figure is larger; a host without one is left out. */
  ...(Object.assign(
    {},
    ...figureFilters.map(({ part, parameter }) => withNegated(part, parameter, count)),
  ) as WithNegated<FigureFilter["part"], FigureFilter["parameter"], typeof count>),
  /** Records have waited for the threshold of forwarding or longer, and the queue is full within this time if it fills as it has since then. */
  ...withNegated("queueFullWithinSeconds", "queue_full_within_seconds", seconds),
} as const;

type Parts = typeof filterParts;

/** Which hosts: every part is optional. */
export type FleetFilter = {
  readonly [Part in keyof Parts]?: Readonly<v.InferOutput<Parts[Part]["schema"]>>;
};

/** Reports whether a filter has no condition, so that it selects every host. */
export const selectsEveryHost = (filter: FleetFilter): boolean => filterToParams(filter).size === 0;

/** The name of a part. */
export type FilterPart = keyof FleetFilter;

/** The name of a part that is not negated. */
export type PositivePart = Exclude<FilterPart, `not${Capitalize<string>}`>;

/** The lists of which a host matches every value, not just one; of labels, one value of each key. */
export const conjunctiveParts: ReadonlySet<FilterPart> = new Set(["text", "versionRange", "label"]);

/** Every part, the negated ones included. */
export const filterPartNames = Object.keys(filterParts) as FilterPart[];

/** Returns the negated part of a part; undefined for states. */
export const negatedPart = (part: PositivePart): FilterPart | undefined => {
  const negated = `not${part.charAt(0).toUpperCase()}${part.slice(1)}`;
  return filterPartNames.find((name) => name === negated);
};

/** The query parameters of a filter, as entries of a schema. */
export const fleetFilterFields = {
  ...(Object.fromEntries(
    Object.values(filterParts).map(({ parameter, schema }) => [
      parameter,
      v.optional<v.GenericSchema>(schema),
    ]),
  ) as {
    [Part in FilterPart as Parts[Part]["parameter"]]: v.OptionalSchema<
      Parts[Part]["schema"],
      undefined
    >;
  }),
  not_state: v.optional(states.schema),
};

/** The parsed query parameters of a filter. */
type FleetFilterQuery = v.InferOutput<v.ObjectSchema<typeof fleetFilterFields, undefined>>;

/** Returns `filter` with `change` applied, without the parts that are undefined. */
export const changeFilter = (
  filter: FleetFilter,
  change: { readonly [Part in FilterPart]?: FleetFilter[Part] | undefined },
): FleetFilter =>
  Object.fromEntries(
    Object.entries({ ...filter, ...change }).filter(([, value]) => value !== undefined),
  );

type StateQuery = Pick<FleetFilterQuery, "state" | "not_state">;

const statesLeft = ({
  state = fleetStates,
  not_state: excluded = [],
}: StateQuery): readonly FleetState[] => state.filter((name) => !excluded.includes(name));

/** Reports whether `state` and `not_state` leave a state. Each schema with `fleetFilterFields` checks it. */
export const leavesState = (query: StateQuery): boolean => statesLeft(query).length > 0;

/** The fault to report when `leavesState` is false. */
export const noStateLeft = "state and not_state must leave a state";

/** Returns the query of a report on the hosts of a filter, with fields of its own. */
export const filterQuery = <Fields extends v.ObjectEntries>(fields: Fields) =>
  v.pipe(
    v.strictObject({ ...fleetFilterFields, ...fields }),
    v.check((query) => leavesState(query as StateQuery), noStateLeft),
  );

/** Returns the filter of a parsed query. */
export const filterFromQuery = (query: FleetFilterQuery): FleetFilter =>
  changeFilter(
    Object.fromEntries(filterPartNames.map((part) => [part, query[filterParts[part].parameter]])),
    {
      states: distinctStates(statesLeft(query)),
    },
  );

/** Returns the query parameters of a filter, in a fixed order. */
export const filterToParams = (filter: FleetFilter): URLSearchParams =>
  new URLSearchParams(
    filterPartNames.flatMap((part) =>
      [filter[part] ?? []]
        .flat()
        .map((value): [string, string] => [filterParts[part].parameter, String(value)]),
    ),
  );

/** The rows of each CSV export as a filter: by condition, not by state, which is only the first of the conditions. */
export const exportFilters: Readonly<Record<ExportKind, FleetFilter>> = {
  stale: { condition: ["stale"] },
  queue_risk: { condition: ["queue_at_risk"] },
  renewal_failures: { condition: ["renewal_failed"] },
  config_drift: { drift: ["drifted", "on_last_known_good"] },
};

/** The fleet at a past time: the parameter `at`, and the filters without history. */

/** The query parameter `at`. */
export const PastTime = v.pipe(
  v.string("must be given once"),
  v.check(
    (text) => parsePastTime(text) !== undefined,
    "must be a time in UTC, such as 2026-11-23T02:41Z",
  ),
  v.transform((text) => new Date(parsePastTime(text) ?? Number.NaN)),
);

/** The parts of a filter that are known only for now. */
const partsOfNow: ReadonlySet<FilterPart> = new Set(
  (
    [
      "auth",
      "droppedMoreThan",
      "queueAbovePercent",
      ...figureFilters.map(({ part }) => part),
      "queueFullWithinSeconds",
      "incompleteWithinSeconds",
      "inventory",
      "budget",
    ] as const
  ).flatMap((part): FilterPart[] => [
    part,
    `not${part.charAt(0).toUpperCase()}${part.slice(1)}` as FilterPart,
  ]),
);

type Thresholds = Pick<FleetThresholdsView, "stale_after_seconds" | "forwarding_seconds">;

/** The ages whose history knows only whether they are above a threshold. */
const agesFrom: Partial<Record<FilterPart, keyof Thresholds>> = {
  heartbeatOlderThanSeconds: "stale_after_seconds",
  notHeartbeatOlderThanSeconds: "stale_after_seconds",
  heartbeatWithinSeconds: "stale_after_seconds",
  notHeartbeatWithinSeconds: "stale_after_seconds",
  envelopeOlderThanSeconds: "forwarding_seconds",
  notEnvelopeOlderThanSeconds: "forwarding_seconds",
  envelopeWithinSeconds: "forwarding_seconds",
  notEnvelopeWithinSeconds: "forwarding_seconds",
};

/** Returns why a filter has no history, with the name of its parameter; undefined if it has. */
export const withoutHistory = (
  { filter, sort }: { filter: FleetFilter; sort?: FleetSort | undefined },
  { at, thresholds }: { at: number; thresholds: Thresholds },
): string | undefined => {
  if (sort !== undefined && sortsOfNow.has(sort)) return `sort: ${sort} has no history`;
  for (const part of Object.keys(filter) as FilterPart[]) {
    const { parameter } = filterParts[part];
    if (partsOfNow.has(part)) return `${parameter}: this has no history`;
    const threshold = agesFrom[part];
    const seconds = threshold && thresholds[threshold];
    if (seconds !== undefined && Number(filter[part]) < seconds)
      return `${parameter}: the past knows ages of ${seconds} seconds and more`;
    if (part !== "silentSince" && part !== "notSilentSince") continue;
    if (Date.parse(String(filter[part])) > at - thresholds.forwarding_seconds * 1000)
      return `${parameter}: the past knows silences of ${thresholds.forwarding_seconds} seconds and more`;
  }
  return undefined;
};
