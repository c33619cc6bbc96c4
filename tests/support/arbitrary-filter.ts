import fc from "fast-check";
import {
  distinctStates,
  type FilterPart,
  filterPartNames,
  filterParts,
  negatedPart,
  type PositivePart,
} from "#proto/fleet-health/filter.ts";
import { filterCountMax, filterSecondsMax, fleetStates } from "#proto/fleet-health/vocabulary.ts";
import { labelPair } from "#proto/labels.ts";

/** Generates texts that stress the query language: quotes, backslashes, operators, spaces of every kind, no control characters. */
export const arbitraryText = (lengthMax: number) =>
  fc
    .array(
      fc.oneof(
        fc.constantFrom(
          " ",
          "  ",
          '"',
          "\\",
          ":",
          "-",
          "OR",
          "state:",
          "hb>",
          "device://",
          "\u00a0",
          ",",
          "ü",
          "🛰",
        ),
        fc.string({ unit: "grapheme", minLength: 1, maxLength: 6 }),
      ),
      { minLength: 1, maxLength: 8 },
    )
    .map((parts) => parts.join("").replace(/\p{Cc}/gu, "·"))
    .filter((joined) => joined.length <= lengthMax && joined.isWellFormed());

const several = (value: fc.Arbitrary<unknown>) =>
  fc.uniqueArray(value, { minLength: 1, maxLength: 3 });

const counts = fc.integer({ min: 0, max: filterCountMax });
const times = fc
  .date({ min: new Date("2020-01-01"), max: new Date("2035-01-01"), noInvalidDate: true })
  .chain((at) => fc.constantFrom(at, new Date(at.getFullYear(), at.getMonth(), at.getDate())))
  .map((at) => `${at.toISOString().slice(0, 19)}Z`);
const ranges = several(
  fc
    .tuple(times, times)
    .filter(([one, other]) => one !== other)
    .map((both) => both.toSorted().join("..")),
);
const hashes = several(fc.stringMatching(/^[0-9a-f]{6,12}$/));
const versionRanges = several(
  fc
    .tuple(
      fc.constantFrom("<", "<=", ">", ">="),
      fc.constantFrom("1", "1.4", "1.4.0", "1.10.2", "1.11.0-rc.1", "0"),
    )
    .map((parts) => parts.join("")),
);

const positiveValues = {
  versionRange: versionRanges,
  config: hashes,
  desiredConfig: hashes,
  runningConfig: hashes,
  silentSince: times,
  expires: ranges,
  droppedMoreThan: counts,
  queueAbovePercent: fc.integer({ min: 0, max: 100 }),
  queueAboveBytes: counts,
};
const ownValues = Object.fromEntries(
  Object.entries(positiveValues).flatMap(([part, values]) => [
    [part, values],
    [negatedPart(part as PositivePart), values],
  ]),
);

const partValues = (part: FilterPart) => {
  const definition = filterParts[part];
  if (part === "states")
    return fc
      .subarray([...fleetStates], { minLength: 1, maxLength: 8 })
      .map((states) => distinctStates(states));
  if ("sorted" in definition)
    return several(fc.stringMatching(labelPair)).map((pairs) =>
      definition.sorted(pairs as string[]),
    );
  if ("choices" in definition) return several(fc.constantFrom(...definition.choices));
  if (part in ownValues) return ownValues[part] ?? fc.constant(0);
  if ("charactersMax" in definition) return several(arbitraryText(definition.charactersMax));
  return fc.integer({ min: 0, max: filterSecondsMax });
};

/** Generates filters with any of their parts. */
export const arbitraryFilter = () =>
  fc
    .subarray(filterPartNames, { maxLength: 8 })
    .chain((parts) => fc.record(Object.fromEntries(parts.map((part) => [part, partValues(part)]))));
