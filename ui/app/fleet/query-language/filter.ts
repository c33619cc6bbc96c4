import { type Forwarding, filterCharactersMax, forwardings } from "../../../../proto/fleet-health/filter.ts";
import type { Drift, FleetState } from "../../../../proto/fleet-health/vocabulary.ts";
import { driftKinds, fleetStates } from "../../../../proto/fleet-health/vocabulary.ts";
import { durationSecondsMax } from "../../format/duration.ts";

/**
 * Which collectors: exactly the filters of `GET /v1/collector/health` (contract, section 6). What is absent does not filter; the parts
 * combine by AND, the states by OR.
 */
export interface FleetFilter {
  /** At least one and not all, unique, in order of precedence. */
  readonly states?: readonly FleetState[];
  /** Substring of device, identity, platform or version, in any case. */
  readonly text?: string;
  readonly device?: string;
  readonly identity?: string;
  readonly platform?: string;
  readonly version?: string;
  readonly notVersion?: string;
  readonly drift?: Drift;
  readonly heartbeatOlderThanSeconds?: number;
  /** Also what has expired; what has a successor is left out. */
  readonly expiresWithinSeconds?: number;
  /** The last heartbeat is within the stale threshold. */
  readonly heartbeat?: "recent";
  /** `never`: heartbeats, and has never forwarded; `ever`: has forwarded. */
  readonly forwarding?: Forwarding;
}

/** The parts of a filter that are compared as text, with the report's bounds in characters. */
export const textFields = {
  text: { parameter: "q", charactersMax: filterCharactersMax.q },
  device: { parameter: "device", charactersMax: filterCharactersMax.device },
  identity: { parameter: "identity", charactersMax: filterCharactersMax.identity },
  platform: { parameter: "platform", charactersMax: filterCharactersMax.platform },
  version: { parameter: "version", charactersMax: filterCharactersMax.version },
  notVersion: { parameter: "not_version", charactersMax: filterCharactersMax.not_version },
} as const;

/** One of `textFields`. */
export type TextField = keyof typeof textFields;

const secondsFields = {
  heartbeatOlderThanSeconds: "heartbeat_older_than_seconds",
  expiresWithinSeconds: "expires_within_seconds",
} as const;

type SecondsField = keyof typeof secondsFields;

/** Why a text cannot be searched for, in words for the person who typed it; undefined when it can. */
export const textFault = (field: TextField, text: string): string | undefined => {
  const { charactersMax } = textFields[field];
  if (text.length > charactersMax) return `Too long: at most ${charactersMax} characters.`;
  if (/\p{Cc}/u.test(text) || !text.isWellFormed()) return "Control characters cannot be searched for.";
  return undefined;
};

/** States as a filter holds them: unique and in order of precedence; undefined when none or all nine are meant. */
export const statesOf = (states: Iterable<FleetState>): readonly FleetState[] | undefined => {
  const chosen = new Set(states);
  return chosen.size === 0 || chosen.size === fleetStates.length
    ? undefined
    : fleetStates.filter((state) => chosen.has(state));
};

/** `filter` with `change` applied; a part that `change` gives as undefined is left out. */
export const changeFilter = (
  filter: FleetFilter,
  change: { readonly [Key in keyof FleetFilter]?: FleetFilter[Key] | undefined },
): FleetFilter =>
  Object.fromEntries(Object.entries({ ...filter, ...change }).filter(([, value]) => value !== undefined));

/** The filter as parameters of the report, of its facets and exports, and of the page's own address; in a fixed order. */
export const filterToParams = (filter: FleetFilter): URLSearchParams => {
  const params = new URLSearchParams();
  for (const state of filter.states ?? []) params.append("state", state);
  for (const field of Object.keys(textFields) as TextField[]) {
    const text = filter[field];
    if (text !== undefined) params.set(textFields[field].parameter, text);
  }
  if (filter.drift !== undefined) params.set("drift", filter.drift);
  for (const field of Object.keys(secondsFields) as SecondsField[]) {
    const seconds = filter[field];
    if (seconds !== undefined) params.set(secondsFields[field], String(seconds));
  }
  if (filter.heartbeat !== undefined) params.set("heartbeat", filter.heartbeat);
  if (filter.forwarding !== undefined) params.set("forwarding", filter.forwarding);
  return params;
};

/** The names of the parameters that `filterToParams` writes; an address may hold others beside them. */
export const filterParameters: readonly string[] = [
  "state",
  ...Object.values(textFields).map(({ parameter }) => parameter),
  "drift",
  ...Object.values(secondsFields),
  "heartbeat",
  "forwarding",
];

/** The filter that an address holds. What the report would refuse is left out, so that a mangled link still opens. */
export const filterFromParams = (params: URLSearchParams): FleetFilter => {
  const texts = (Object.keys(textFields) as TextField[]).map((field) => {
    const text = params.get(textFields[field].parameter) ?? "";
    return [field, text !== "" && textFault(field, text) === undefined ? text : undefined];
  });
  const durations = (Object.keys(secondsFields) as SecondsField[]).map((field) => [
    field,
    wholeSeconds(params.get(secondsFields[field])),
  ]);
  return changeFilter(Object.fromEntries([...texts, ...durations]), {
    states: statesOf(params.getAll("state").filter(isState)),
    drift: driftKinds.find((kind) => kind === params.get("drift")),
    heartbeat: params.get("heartbeat") === "recent" ? "recent" : undefined,
    forwarding: forwardings.find((kind) => kind === params.get("forwarding")),
  });
};

const isState = (text: string): text is FleetState => fleetStates.some((state) => state === text);

const wholeSeconds = (text: string | null): number | undefined =>
  text !== null && /^\d{1,9}$/.test(text) && Number(text) <= durationSecondsMax ? Number(text) : undefined;
