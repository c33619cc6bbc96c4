import * as v from "valibot";
import {
  type FleetFilter,
  filterFromQuery,
  filterParts,
  fleetFilterFields,
  leavesState,
  noStateLeft,
} from "../filter.ts";
import { nearest } from "./nearest.ts";

/** The filter of a link, and why the report would reject parts of it. */
interface FilterLink {
  /** The filter of the valid parts. */
  readonly filter: FleetFilter;
  /** A sentence for each parameter that is not valid, its name first. */
  readonly faults: readonly string[];
}

/** Parses the parameters of a filter in an address; `ownNames` are the other parameters that the page has. */
export const parseFilterLink = (
  params: URLSearchParams,
  ownNames: readonly string[],
): FilterLink => {
  const known = Object.keys(fleetFilterFields);
  const faults = [...new Set(params.keys())]
    .filter((name) => !known.includes(name) && !ownNames.includes(name))
    .map((name) => unknownParameter(name, [...known, ...ownNames]));
  const parts = Object.entries(fleetFilterFields).map(([parameter, schema]) => {
    const values = params.getAll(parameter);
    // One value as a string, none as undefined, as the API's parser passes them.
    const parsed = v.safeParse(schema, values.length > 1 ? values : values[0]);
    if (parsed.success) return [parameter, parsed.output];
    faults.push(unknownValue(parameter, values) ?? `${parameter} ${parsed.issues[0].message}.`);
    return [parameter, undefined];
  });
  const query = Object.fromEntries(parts);
  if (leavesState(query)) return { filter: filterFromQuery(query), faults };
  return {
    filter: filterFromQuery({ ...query, state: undefined, not_state: undefined }),
    faults: [...faults, `${noStateLeft}.`],
  };
};

const unknownParameter = (name: string, known: readonly string[]) => {
  const guess = nearest(name.toLowerCase(), known);
  return `There is no parameter ${shown(name)}.${guess === undefined ? "" : ` Did you mean ${guess}?`}`;
};

/** Names the first value that is none of a parameter's names. */
const unknownValue = (parameter: string, values: readonly string[]) => {
  const part = Object.values(filterParts).find(
    (each) => each.parameter === parameter.replace(/^not_state$/, "state"),
  );
  if (part === undefined || !("choices" in part)) return undefined;
  const choices: readonly string[] = part.choices;
  const wrong = values.find((value) => !choices.includes(value));
  if (wrong === undefined) return undefined;
  const guess = nearest(wrong.toLowerCase(), choices);
  return `${parameter} has no value ${wrong === "" ? "“”" : shown(wrong)}. ${guess === undefined ? `It is one of ${choices.join(", ")}.` : `Did you mean ${guess}?`}`;
};

/** Shortens a text of a link, which somebody else wrote. */
const shown = (text: string) => (text.length > 40 ? `${text.slice(0, 40)}…` : text);
