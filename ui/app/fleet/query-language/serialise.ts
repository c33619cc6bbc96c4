import { changeFilter, distinctStates, type FleetFilter } from "../../../../proto/fleet-health/filter.ts";
import { type FleetState, fleetStates } from "../../../../proto/fleet-health/vocabulary.ts";
import { writeDuration } from "./duration.ts";
import { termParts } from "./terms.ts";
import { quote, quoteValue } from "./words.ts";

/** Writes a filter as a query, always in the same order and spelling. `parseQuery` is its inverse. */
export const serialiseFilter = (filter: FleetFilter): string =>
  writtenParts(filter)
    .map(({ text }) => text)
    .join(" ");

/** One part of a filter as the query writes it, and the filter without it. */
export interface Pill {
  label: string;
  without: FleetFilter;
}

/** Returns the parts of a filter in the order of its query, with a pill for each state. */
export const pillsOf = (filter: FleetFilter): Pill[] =>
  writtenParts(filter).flatMap(({ part, text }) =>
    part === "states"
      ? statePills(filter, filter.states ?? [])
      : [{ label: text, without: changeFilter(filter, { [part]: undefined }) }],
  );

const statePills = (filter: FleetFilter, states: readonly FleetState[]): Pill[] => {
  const excluded = excludedStates(states);
  return (excluded ?? states).map((state) => ({
    label: `${excluded ? "-" : ""}state:${state}`,
    without: changeFilter(filter, {
      states: distinctStates(excluded ? [...states, state] : states.filter((one) => one !== state)),
    }),
  }));
};

type Writers = { [Part in keyof FleetFilter]-?: (value: NonNullable<FleetFilter[Part]>) => string };

/** In the order of the query. */
const writers: Writers = {
  text: (text) => writeText(text),
  states: (states) => {
    const excluded = excludedStates(states);
    return excluded ? `-state:${excluded.join(",")}` : `state:${states.join(",")}`;
  },
  device: (device) => `device:${quoteValue(device)}`,
  identity: (identity) => `identity:${quoteValue(identity)}`,
  platform: (platform) => `platform:${quoteValue(platform)}`,
  version: (version) => `version:${quoteValue(version)}`,
  notVersion: (version) => `-version:${quoteValue(version)}`,
  drift: (drift) => `drift:${drift}`,
  heartbeat: (heartbeat) => `heartbeat:${heartbeat}`,
  forwarding: (forwarding) => `forwarding:${forwarding}`,
  heartbeatOlderThanSeconds: (seconds) => `hb>${writeDuration(seconds)}`,
  expiresWithinSeconds: (seconds) => `expires<${writeDuration(seconds)}`,
};

const writtenParts = (filter: FleetFilter) =>
  (Object.keys(writers) as (keyof FleetFilter)[]).flatMap((part) => {
    const value = filter[part];
    const write = writers[part] as (value: unknown) => string;
    return value === undefined ? [] : [{ part, text: write(value) }];
  });

/** Returns the states left out, when naming them is shorter than naming the others. */
const excludedStates = (states: readonly FleetState[]): readonly FleetState[] | undefined =>
  states.length > fleetStates.length / 2 ? fleetStates.filter((state) => !states.includes(state)) : undefined;

const writeText = (text: string): string => {
  const plain = text
    .split(" ")
    .every((word) => /^[^\s"]+$/.test(word) && termParts({ text: word, bareLength: word.length }) === undefined);
  return plain ? text : quote(text);
};
