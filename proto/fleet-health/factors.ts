import * as v from "valibot";
import { IsoTimestamp } from "../values.ts";

/** The kinds of facts that hosts may have in common. */
export const factorKinds = [
  "label",
  "version",
  "platform",
  "running_config",
  "desired_config",
  "drift",
  "core",
  "subnet",
  "policy",
  "source",
] as const;

/** One of `factorKinds`. */
export type FactorKind = (typeof factorKinds)[number];

/** Response of `GET /v1/collector/health/factors` (docs/fleet-page.md): what the hosts of a filter have more often than the others. */
export const FleetFactors = v.strictObject({
  generated_at: IsoTimestamp,
  /** As in the report. */
  at: v.optional(IsoTimestamp),
  /** Hosts of the filter. */
  selected: v.number(),
  /** All other hosts. */
  others: v.number(),
  /** Values that were compared, of all kinds. */
  compared: v.number(),
  /** Core reads the sources of the hosts, which takes seconds, and has not compared them; absent when it has. */
  reads_sources: v.optional(v.literal(true)),
  /** The value that explains most first. */
  items: v.array(
    v.strictObject({
      kind: v.picklist(factorKinds),
      /** As a filter has it: `region:fra1`, a version, the first 16 digits of a config's hash. */
      value: v.string(),
      selected: v.number(),
      others: v.number(),
      /**
       * How many of the compared values would be expected to be as frequent in the same number of random hosts: below 0.05 it is hardly chance,
       * from 1 on it means nothing.
       */
      expected_by_chance: v.number(),
    }),
  ),
});

/** Response of `GET /v1/collector/health/factors`. */
export type FleetFactors = v.InferOutput<typeof FleetFactors>;
