import { type FleetState, fleetStates } from "../../../../proto/fleet-health/vocabulary.ts";
import { writeDuration } from "../../format/duration.ts";
import type { FleetFilter } from "./filter.ts";
import { termParts } from "./terms.ts";
import { quote, quoteValue } from "./words.ts";

/** The filter as a query, always in the same order and spelling; `parseQuery` reads the same filter back. */
export const serialiseFilter = (filter: FleetFilter): string => termsOf(filter).join(" ");

const termsOf = (filter: FleetFilter): string[] => {
  const words: string[] = [];
  const add = <Value>(value: Value | undefined, word: (value: Value) => string): void => {
    if (value !== undefined) words.push(word(value));
  };
  add(filter.text, writeText);
  add(filter.states, writeStates);
  add(filter.device, (device) => `device:${quoteValue(device)}`);
  add(filter.identity, (identity) => `identity:${quoteValue(identity)}`);
  add(filter.platform, (platform) => `platform:${quoteValue(platform)}`);
  add(filter.version, (version) => `version:${quoteValue(version)}`);
  add(filter.notVersion, (version) => `-version:${quoteValue(version)}`);
  add(filter.drift, (drift) => `drift:${drift}`);
  add(filter.heartbeat, (heartbeat) => `heartbeat:${heartbeat}`);
  add(filter.forwarding, (forwarding) => `forwarding:${forwarding}`);
  add(filter.heartbeatOlderThanSeconds, (seconds) => `hb>${writeDuration(seconds)}`);
  add(filter.expiresWithinSeconds, (seconds) => `expires<${writeDuration(seconds)}`);
  return words;
};

/** The states left out, when naming them is shorter than naming those that are wanted. */
export const excludedStates = (states: readonly FleetState[]): readonly FleetState[] | undefined =>
  states.length > fleetStates.length / 2 ? fleetStates.filter((state) => !states.includes(state)) : undefined;

const writeStates = (states: readonly FleetState[]): string => {
  const excluded = excludedStates(states);
  return excluded ? `-state:${excluded.join(",")}` : `state:${states.join(",")}`;
};

const writeText = (text: string): string => {
  const plain = text
    .split(" ")
    .every((word) => /^[^\s"]+$/.test(word) && termParts({ text: word, bareLength: word.length }) === undefined);
  return plain ? text : quote(text);
};
