/**
 * The filter of the fleet report, defined once: the API reads it from a query, the store turns it into SQL, the page and the admin
 * command read it from what an operator types (`query-language/`), and `narrow-filter.ts` narrows one by another. Absent parts do not
 * filter; parts combine by AND. Of a list of values a host matches one, except for `conjunctiveParts`. Each part has a negated one, which
 * excludes the hosts that match any of its values.
 */
import * as v from "valibot";
import { labelPair } from "../labels.ts";
import { type FigureFilter, figureFilters } from "../management/reported-numbers.ts";
import {
  agentKinds,
  type CamelCase,
  camelCase,
  Identifier,
  parsePastTime,
  parseTimestamp,
  QueryInteger,
} from "../values.ts";
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

/** Returns `states` without repetition, in order of precedence; undefined when none or all are given, as neither filters. */
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

/** What is known of some parts. */
interface Known {
  /** Values that the page suggests; without any, it knows them by itself. */
  readonly examples?: readonly string[];
  /** Ends the message about a name that it does not have. */
  readonly hint?: string;
  /** It has no history. */
  readonly isOfNow?: true;
  /** History knows only whether the age is above this threshold. */
  readonly knownFrom?: keyof Thresholds;
}

/** What is known of a part. */
export interface DescribedPart extends Known {
  /** Its query parameter, where that is not the name of the part. */
  readonly parameter?: string;
  /** A term of the query language with an example of its value; empty for text, which stands by itself. */
  readonly term: string;
  readonly meaning: string;
  /** The part whose hosts it excludes. */
  readonly negates?: PositivePart;
}

type Thresholds = Pick<FleetThresholdsView, "stale_after_seconds" | "forwarding_seconds">;

const text = (charactersMax: number, term = "", meaning = "") => ({
  ...several(Identifier(charactersMax), "must be text"),
  charactersMax,
  term,
  meaning,
});

const names = <const Names extends readonly string[]>(
  choices: Names,
  term: string,
  meaning: string,
  {
    expected = `must be ${choices.join(", ").replace(/, (\w+)$/, " or $1")}`,
    ...known
  }: Known & { expected?: string } = {},
) => ({ ...several(v.picklist(choices, expected), expected), choices, term, meaning, ...known });

/** Sorts pairs by their keys, so that equal filters have one form. */
const sorted = (pairs: readonly string[]): readonly string[] => pairs.toSorted();

const labels = (term: string, meaning: string) => {
  const expected = "must be a label, such as env:prod, or env:* for any value";
  const { schema, value } = several(
    v.pipe(v.string(expected), v.regex(labelPair, expected)),
    expected,
  );
  return { schema: v.pipe(schema, v.transform(sorted)), value, sorted, term, meaning };
};

/** A number up to `max`, which the query language writes in one of its forms. */
const number =
  <const Form extends "duration" | "count" | "size" | "percent">(form: Form, max: number) =>
  (term: string, meaning: string, known: Known = {}) => ({
    schema: QueryInteger(0, max),
    form,
    term,
    meaning,
    ...known,
  });
const seconds = number("duration", filterSecondsMax);
const count = number("count", filterCountMax);
const size = number("size", filterCountMax);
const percent = number("percent", 100);

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

const hashes = (term: string, meaning: string) => ({
  ...several(HashPrefix, "must be the beginning of a config hash"),
  form: "hash" as const,
  term,
  meaning,
});

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

const ages = ["3m", "10m", "1h", "1d", "7d"];

/** The parts by their names in snake case, which are their query parameters too. */
const definitions = {
  /** The only part without a negated one: `not_state` is read as the other states. */
  states: {
    ...names(fleetStates, "state:stale,revoked", "health state", {
      expected: "must be a health state",
    }),
    parameter: "state" as const,
  },
  attention: names(attentionKinds, "attention:needed", "hosts that need attention"),
  /**
   * A substring of device, hostname, identity, platform or version, in any case; or the id of a host or a certificate, or the serial number
   * or fingerprint of a certificate, as tools print them. A host matches every one.
   */
  text: { ...text(256), parameter: "q" as const },
  device: text(128, "device:web-01", "exact device id"),
  hostname: text(255, "hostname:web-01.example.com", "exact hostname"),
  identity: text(2048, "identity:spiffe://fleet/web-01", "exact identity"),
  /** A platform, or an operating system: `linux` matches `linux/amd64`. */
  platform: text(65, "platform:linux", "platform, or operating system alone"),
  /** A version; `*` stands for any characters, as in `1.8.*`. */
  version: text(64, "version:1.4.0", "collector version; 1.4.* for all of 1.4"),
  agent: names(agentKinds, "agent:otelcol", "kind of agent", {
    expected: "must be a kind of agent",
  }),
  /** Compared by SemVer; a version that is not SemVer matches none. A host matches every one. */
  version_range: {
    ...several(VersionRange, "must be a comparison with a version"),
    form: "version" as const,
    term: "version<1.4",
    meaning: "version below, by SemVer",
  },
  /** The beginning of the hash of the desired, the running or the last known good config. */
  config: hashes("config:f8b4c0", "desired, running or last good config begins with"),
  label: labels("label.env:prod", "label of the host"),
  /** The machine of the core that received the last heartbeat. */
  core: text(253, "core:core-1", "machine of the core that the last heartbeat reached"),
  /** The /24 or /64 that the last heartbeat came from, as core saw it. */
  subnet: text(64, "subnet:10.1.2.0/24", "its /24 or /64, as core saw it"),
  /** The name of the enrollment policy. */
  policy: text(128, "policy:servers", "enrollment policy"),
  /** A source of telemetry of which the host has accepted records since the UTC day before, by its accounts. */
  source: text(200, "source:syslog", "source of its telemetry since yesterday"),
  drift: names(driftKinds, "drift:drifted", "running config against desired", {
    expected: "must be a kind of drift",
  }),
  /** The config that the host should run: the assigned one, else the one that its heartbeat reports. */
  desired_config: hashes("desired:f8b4c0", "desired config begins with"),
  /** The config that the last heartbeat names. */
  running_config: hashes("running:f8b4c0", "running config begins with"),
  progress: names(
    configProgress,
    "progress:drifted,failed",
    "whether it applied its desired config",
  ),
  /** A condition that applies, even if another one decides the state. */
  condition: names(
    fleetConditions,
    "condition:stale",
    "a condition that applies, whatever the state",
    { expected: "must be a condition" },
  ),
  heartbeat: names(
    heartbeatKinds,
    "heartbeat:recent",
    "last heartbeat is recent; for an age, hb>10m",
    { hint: " For an age write hb>10m." },
  ),
  forwarding: names(forwardings, "forwarding:stopped", "forwards now, stopped, or never did"),
  /** As the last heartbeat reports it; a host that never sent one is neither. */
  forwarder: names(
    forwarderKinds,
    "forwarder:disconnected",
    "connection to core, as the host reports it",
  ),
  /** How the inventory of expected hosts and the fleet agree on the host; without an inventory a host has none. */
  inventory: names(
    enrolledStatuses,
    "inventory:unexpected,gone",
    "in the inventory; not in it; no longer in it, and still sending",
    { hint: " Hosts that never enrolled have no row: /inventory lists them.", isOfNow: true },
  ),
  /** `held`: core stores nothing more of it in this hour, because it has sent its budget. */
  budget: names(
    budgetKinds,
    "budget:held",
    "used up its budget of this hour; core stores no more until it ends",
    { isOfNow: true },
  ),
  /** `failed`: an authentication failed in the last 24 hours; `failing`: and the host has sent no heartbeat since. */
  auth: names(
    ["failed", "failing"],
    "auth:failed",
    "failed: an authentication failed in the last 24 h; failing: and no heartbeat since",
    { isOfNow: true },
  ),
  /** The last heartbeat is older than this; a host that never sent one is left out. */
  heartbeat_older_than_seconds: seconds("hb>10m", "last heartbeat longer ago than", {
    examples: ages,
    knownFrom: "stale_after_seconds",
  }),
  heartbeat_within_seconds: seconds("hb<10m", "last heartbeat within", {
    examples: ages,
    knownFrom: "stale_after_seconds",
  }),
  /** The last envelope is older than this; a host that never forwarded is left out. */
  envelope_older_than_seconds: seconds("fwd>10m", "last envelope longer ago than", {
    examples: ages,
    knownFrom: "forwarding_seconds",
  }),
  envelope_within_seconds: seconds("fwd<10m", "last envelope within", {
    examples: ages,
    knownFrom: "forwarding_seconds",
  }),
  /** The host has forwarded, but nothing since this time. */
  silent_since: {
    schema: v.pipe(v.string("must be given once"), v.check(isSecond, secondExpected)),
    form: "time" as const,
    term: "since:10:00",
    examples: ["today", "yesterday", "1h"],
    meaning: "has forwarded, but nothing since a time in UTC",
  },
  /** Within this time the host was enrolled or revoked, its version or config changed, or a condition began or ended. */
  changed_within_seconds: seconds(
    "changed<1h",
    "enrolled, revoked, another version or config, or a condition began or ended, within",
    { examples: ["10m", "1h", "1d"] },
  ),
  /** An hour that began within this time is incomplete: short, late or silent, or core was out. */
  incomplete_within_seconds: seconds("incomplete<24h", "an incomplete hour within", {
    examples: ["24h", "7d"],
    isOfNow: true,
  }),
  /** The certificate, or its successor if that expires later, expires within this time or has expired. */
  expires_within_seconds: seconds("expires<3d", "certificate has expired by then", {
    examples: ["1d", "3d", "7d", "30d"],
  }),
  /** It expires in one of these ranges `FROM..TO`, the end excluded. */
  expires: {
    ...several(v.pipe(v.string(), v.check(isTimeRange, rangeExpected)), rangeExpected),
    form: "range" as const,
    term: "expires:weekend",
    examples: ["today", "tomorrow", "weekend"],
    meaning: "expires on a day or in a range, in UTC",
  },
  /** The collector dropped, and core rejected (dead letters), more records than this, in all. */
  dropped_more_than: count("dropped>0", "lost records, in all, more than", {
    examples: ["0"],
    isOfNow: true,
  }),
  /** The queue is fuller than this share of its limit. */
  queue_above_percent: percent("queue>50%", "queue fuller than, of its limit", {
    examples: ["50%", "80%"],
    isOfNow: true,
  }),
  /** The figure is larger; a host without one is left out. */
  ...(Object.fromEntries(
    figureFilters.map(({ parameter, key, examples, unit }) => {
      const [above, than] = unit === "bytes" ? [size, "larger than"] : [count, "more than"];
      const term = `${key}>${examples.at(-1)}`;
      return [parameter, above(term, `${key} ${than}`, { examples, isOfNow: true })];
    }),
  ) as Record<FigureFilter["parameter"], ReturnType<typeof size>>),
  /** Records have waited for the threshold of forwarding or longer, and the queue is full within this time if it goes on to grow as it did. */
  queue_full_within_seconds: seconds("fills<3d", "queue full within, as it fills", {
    examples: ["1d", "3d"],
    isOfNow: true,
  }),
};

type Definitions = typeof definitions;
type ParameterOf<Name extends keyof Definitions> = Definitions[Name] extends {
  parameter: infer Parameter extends string;
}
  ? Parameter
  : Name;
type WithParameter<Name extends keyof Definitions, Parameter> = Omit<
  Definitions[Name],
  "parameter"
> & { readonly parameter: Parameter };
type Parts = {
  readonly [Name in keyof Definitions as CamelCase<Name>]: WithParameter<Name, ParameterOf<Name>>;
} & {
  readonly [Name in Exclude<
    keyof Definitions,
    "states"
  > as `not${Capitalize<CamelCase<Name>>}`]: WithParameter<Name, `not_${ParameterOf<Name>}`>;
};

const nameNegated = (part: string) => `not${part.charAt(0).toUpperCase()}${part.slice(1)}`;

/** Each part of a filter: its query parameter, the schema of the parameter's value, and how a query writes it. */
export const filterParts = Object.fromEntries(
  Object.entries<DescribedPart>(definitions).flatMap(([name, definition]) => {
    const part = camelCase(name);
    const { parameter = name } = definition;
    const positive = [part, { ...definition, parameter }];
    const negated = [
      nameNegated(part),
      { ...definition, parameter: `not_${parameter}`, negates: part },
    ];
    return part === "states" ? [positive] : [positive, negated];
  }),
) as Parts;

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

/** The lists of which a host may match several values, so that of two lists neither need be the narrower one. */
export const manyValuedParts: ReadonlySet<FilterPart> = new Set(["condition", "config", "source"]);

/** Every part, the negated ones included. */
export const filterPartNames = Object.keys(filterParts) as FilterPart[];

/** Every part that is not negated. */
export const positivePartNames = Object.keys(definitions).map(camelCase) as PositivePart[];

/** Returns the negated part of a part; undefined for states. */
export const negatedPart = (part: PositivePart): FilterPart | undefined =>
  filterPartNames.find((name) => partNegatedBy(name) === part);

/** Returns the part that a negated part negates; undefined for others. */
export const partNegatedBy = (part: FilterPart): PositivePart | undefined =>
  (filterParts[part] as DescribedPart).negates;

/** Reports whether the number of a part is a lower bound, as in its term `hb>10m`. That of the negated part is an upper one. */
export const isLowerBound = (part: FilterPart): boolean =>
  filterParts[part].term.includes(">") === (partNegatedBy(part) === undefined);

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
  not_state: v.optional(filterParts.states.schema),
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
    { states: distinctStates(statesLeft(query)) },
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
  unhealthy_components: { condition: ["component_unhealthy"] },
  renewal_failures: { condition: ["renewal_failed"] },
  config_drift: { drift: ["drifted", "on_last_known_good"] },
};

/** The query parameter `at`: the fleet at a past time. */
export const PastTime = v.pipe(
  v.string("must be given once"),
  v.check(
    (text) => parsePastTime(text) !== undefined,
    "must be a time in UTC, such as 2026-11-23T02:41Z",
  ),
  v.transform((text) => new Date(parsePastTime(text) ?? Number.NaN)),
);

/** Returns why a filter has no history, with the name of its parameter; undefined if it has. */
export const withoutHistory = (
  { filter, sort }: { filter: FleetFilter; sort?: FleetSort | undefined },
  { at, thresholds }: { at: number; thresholds: Thresholds },
): string | undefined => {
  if (sort !== undefined && sortsOfNow.has(sort)) return `sort: ${sort} has no history`;
  for (const part of Object.keys(filter) as FilterPart[]) {
    const { parameter, isOfNow, knownFrom }: DescribedPart = filterParts[part];
    if (isOfNow) return `${parameter}: this has no history`;
    const seconds = knownFrom && thresholds[knownFrom];
    if (seconds !== undefined && Number(filter[part]) < seconds)
      return `${parameter}: the past knows ages of ${seconds} seconds and more`;
    if (part !== "silentSince" && part !== "notSilentSince") continue;
    if (Date.parse(String(filter[part])) > at - thresholds.forwarding_seconds * 1000)
      return `${parameter}: the past knows silences of ${thresholds.forwarding_seconds} seconds and more`;
  }
  return undefined;
};
