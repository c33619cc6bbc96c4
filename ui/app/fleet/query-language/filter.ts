import * as v from "valibot";
import { changeFilter, distinctStates, type FleetFilter, filterParts } from "../../../../proto/fleet-health/filter.ts";
import { fleetStates } from "../../../../proto/fleet-health/vocabulary.ts";

/** A part of the filter that is compared as text. */
export type TextField = "text" | "device" | "identity" | "platform" | "version" | "notVersion";

/** Returns why the report would reject a text, for the person who typed it; undefined if it accepts it. */
export const textFault = (field: TextField, text: string): string | undefined => {
  const { charactersMax, schema } = filterParts[field];
  if (text.length > charactersMax) return `Too long: at most ${charactersMax} characters.`;
  return v.is(schema, text) ? undefined : "Control characters cannot be searched for.";
};

/** Parses the filter of an address. Parts that the report would reject are ignored, so that a mangled link still opens. */
export const filterFromParams = (params: URLSearchParams): FleetFilter => {
  const parts = Object.entries(filterParts).map(([part, { parameter, schema }]) => {
    const parsed = v.safeParse(schema as v.GenericSchema, params.get(parameter));
    return [part, parsed.success ? parsed.output : undefined];
  });
  const states = params.getAll(filterParts.states.parameter);
  return changeFilter(Object.fromEntries(parts), {
    states: distinctStates(fleetStates.filter((state) => states.includes(state))),
  });
};
