import fc from "fast-check";
import {
  distinctStates,
  type FilterPart,
  type FleetFilter,
  filterPartNames,
  filterParts,
  filterSecondsMax,
} from "../proto/fleet-health/filter.ts";
import { fleetStates } from "../proto/fleet-health/vocabulary.ts";
import { labelPair } from "../proto/labels.ts";

/** Generates texts that stress the query language: quotes, backslashes, operators, spaces of every kind, no control characters. */
export const arbitraryText = (lengthMax: number): fc.Arbitrary<string> =>
  fc
    .array(
      fc.oneof(
        fc.constantFrom(" ", "  ", '"', "\\", ":", "-", "OR", "state:", "hb>", "device://", "\u00a0", ",", "ü", "🛰"),
        fc.string({ unit: "grapheme", minLength: 1, maxLength: 6 }),
      ),
      { minLength: 1, maxLength: 8 },
    )
    .map((parts) => parts.join("").replace(/\p{Cc}/gu, "·"))
    .filter((joined) => joined.length <= lengthMax && joined.isWellFormed());

const several = (value: fc.Arbitrary<unknown>) => fc.uniqueArray(value, { minLength: 1, maxLength: 3 });

const partValues = (part: FilterPart): fc.Arbitrary<unknown> => {
  const definition = filterParts[part];
  if (part === "states")
    return fc.subarray([...fleetStates], { minLength: 1, maxLength: 8 }).map((states) => distinctStates(states));
  if ("sorted" in definition)
    return several(fc.stringMatching(labelPair)).map((pairs) => definition.sorted(pairs as string[]));
  if ("choices" in definition) return several(fc.constantFrom(...(definition.choices as readonly string[])));
  if (part.endsWith("Config") && "value" in definition) return several(fc.stringMatching(/^[0-9a-f]{1,64}$/));
  if ("charactersMax" in definition) return several(arbitraryText(definition.charactersMax));
  return fc.integer({ min: 0, max: filterSecondsMax });
};

/** Generates filters with any of their parts. */
export const arbitraryFilter = (): fc.Arbitrary<FleetFilter> =>
  fc
    .subarray(filterPartNames, { maxLength: 8 })
    .chain((parts) =>
      fc.record(Object.fromEntries(parts.map((part) => [part, partValues(part)]))),
    ) as fc.Arbitrary<FleetFilter>;
