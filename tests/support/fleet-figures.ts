import fc from "fast-check";
import type { FleetFacets } from "#proto/fleet-health/facets.ts";
import { changeFilter, exportFilters, type FleetFilter } from "#proto/fleet-health/filter.ts";
import { narrowFilter } from "#proto/fleet-health/narrow-filter.ts";
import type { FleetHealthReport } from "#proto/fleet-health/report.ts";
import {
  driftKinds,
  exportKinds,
  fleetConditions,
  fleetStates,
  forwarderKinds,
  forwardings,
} from "#proto/fleet-health/vocabulary.ts";
import { layOutExpiry, layOutHeartbeats, layOutVersions } from "#ui/app/fleet/charts/layouts.ts";
import { filterOfFigure, summaryFigures } from "#ui/app/fleet/summary/summary-view.ts";

/** Returns every figure that the fleet page draws under a filter, with the filter of its link; without one where no host can match. */
export const figuresOf = (
  filter: FleetFilter,
  { summary }: Pick<FleetHealthReport, "summary">,
  facets: FleetFacets,
) => {
  const bars = [
    ...layOutHeartbeats(facets).bars,
    ...layOutExpiry(facets, undefined).bars,
    ...layOutVersions(facets),
  ];
  return [
    ...summaryFigures.map((figure) => ({
      name: figure.words,
      count: summary[figure.count],
      filter: filterOfFigure(filter, figure),
    })),
    {
      name: "needs attention",
      count: summary.needs_attention,
      filter: narrowFilter(changeFilter(filter, { states: undefined }), { attention: ["needed"] }),
    },
    ...fleetStates.map((state) => ({
      name: state,
      count: summary.by_state[state] ?? 0,
      filter: { ...filter, states: [state] },
    })),
    ...bars.map((bar) => ({
      name: bar.name,
      count: bar.count,
      filter: narrowFilter(filter, bar.filter),
    })),
    ...exportKinds.map((kind) => ({
      name: `export ${kind}`,
      count: facets.exports[kind],
      filter: narrowFilter(filter, exportFilters[kind]),
    })),
  ];
};

const several = <Value>(...values: Value[]) => fc.subarray(values, { minLength: 1, maxLength: 2 });
const seconds = fc.constantFrom(0, 30, 45, 200, 3600, 86_400, 100_000, 250_000, 1_000_000);

const parts: { [Part in keyof FleetFilter]: fc.Arbitrary<unknown> } = {
  states: fc.subarray([...fleetStates], { minLength: 1, maxLength: 8 }),
  text: several("host-1", "dc-3", "1.1"),
  notText: several("dc-2", "darwin"),
  platform: several("linux/amd64", "darwin/arm64"),
  version: several("1.4.0", "1.11.0", "latest"),
  notVersion: several("1.4.0", "1.10.2", "0.9.0"),
  drift: several(...driftKinds),
  condition: several(...fleetConditions),
  notCondition: several(...fleetConditions),
  heartbeat: several("recent", "never"),
  notHeartbeat: several("recent", "never"),
  forwarding: several(...forwardings),
  notForwarding: several(...forwardings),
  forwarder: several(...forwarderKinds),
  heartbeatOlderThanSeconds: seconds,
  notHeartbeatOlderThanSeconds: seconds,
  expiresWithinSeconds: seconds,
  notExpiresWithinSeconds: seconds,
};

/** Generates filters that select some of the hosts of `seedFleet`, with up to four parts. */
export const seededFilter = fc
  .subarray(Object.keys(parts) as (keyof FleetFilter)[], { maxLength: 4 })
  .chain((names) =>
    fc.record(
      Object.fromEntries(names.map((name) => [name, parts[name] ?? fc.constant(undefined)])),
    ),
  ) as fc.Arbitrary<FleetFilter>;
