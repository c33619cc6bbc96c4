import fc from "fast-check";
import * as v from "valibot";
import { describe, expect, it } from "vitest";
import { type FleetFilter, filterFromQuery, filterSecondsMax, filterToParams, fleetFilterFields } from "./filter.ts";
import { driftKinds, fleetStates, forwardings } from "./vocabulary.ts";

/** The filter of a query string, read as the API reads it: a parameter given once is a string, given again an array. */
const parsed = (params: URLSearchParams): FleetFilter => {
  const given = [...new Set(params.keys())].map((name) => [name, params.getAll(name)] as const);
  const query = Object.fromEntries(given.map(([name, values]) => [name, values.length === 1 ? values[0] : values]));
  return filterFromQuery(v.parse(v.strictObject(fleetFilterFields), query));
};

const text = fc.stringMatching(/^[a-z0-9%_/ &=+-]{1,64}$/);
const seconds = fc.nat(filterSecondsMax);
const filters: fc.Arbitrary<FleetFilter> = fc.record(
  {
    states: fc.subarray([...fleetStates], { minLength: 1, maxLength: fleetStates.length - 1 }),
    text,
    device: text,
    identity: text,
    platform: text,
    version: text,
    notVersion: text,
    drift: fc.constantFrom(...driftKinds),
    heartbeatOlderThanSeconds: seconds,
    expiresWithinSeconds: seconds,
    heartbeat: fc.constant("recent" as const),
    forwarding: fc.constantFrom(...forwardings),
  },
  { requiredKeys: [] },
);

describe("a fleet filter", () => {
  it("survives a round trip through a query string", () => {
    fc.assert(
      fc.property(filters, (filter) => {
        expect(parsed(new URLSearchParams(filterToParams(filter).toString()))).toEqual(filter);
      }),
    );
  });

  it("I6: holds each state once, however often a query names it, and none when all nine are named", () => {
    const repeated = Array(500).fill(["stale", "healthy"]).flat();
    expect(parsed(new URLSearchParams(repeated.map((state) => ["state", state])))).toEqual({
      states: ["stale", "healthy"],
    });
    expect(parsed(new URLSearchParams(fleetStates.map((state) => ["state", state])))).toEqual({});
  });

  it("rejects every repeated parameter but `state`", () => {
    for (const parameter of Object.keys(fleetFilterFields).filter((name) => name !== "state"))
      expect(() => parsed(new URLSearchParams(`${parameter}=1&${parameter}=1`))).toThrow();
  });
});
