import fc from "fast-check";
import * as v from "valibot";
import { expect, it } from "vitest";
import { arbitraryFilter } from "#tests/support/arbitrary-filter.ts";
import {
  filterFromQuery,
  filterPartNames,
  filterParts,
  filterToParams,
  fleetFilterFields,
  leavesState,
  noStateLeft,
} from "./filter.ts";
import { fleetStates } from "./vocabulary.ts";

/** The filter of a query string, read as the API reads it: a parameter given once is a string, given again an array. */
const parsed = (params: URLSearchParams) => {
  const given = [...new Set(params.keys())].map((name) => [name, params.getAll(name)] as const);
  const query = Object.fromEntries(
    given.map(([name, values]) => [name, values.length === 1 ? values[0] : values]),
  );
  const schema = v.pipe(
    v.strictObject(fleetFilterFields),
    v.check((given) => leavesState(given), noStateLeft),
  );
  return filterFromQuery(v.parse(schema, query));
};

const filters = arbitraryFilter();

it("survives a round trip through a query string", () => {
  fc.assert(
    fc.property(filters, (filter) => {
      expect(parsed(new URLSearchParams(filterToParams(filter).toString()))).toEqual(filter);
    }),
  );
});

it("I6: holds each state once, however often a query names it, and none when all are named", () => {
  const repeated = Array(500).fill(["stale", "healthy"]).flat();
  expect(parsed(new URLSearchParams(repeated.map((state) => ["state", state])))).toEqual({
    states: ["stale", "healthy"],
  });
  expect(parsed(new URLSearchParams(fleetStates.map((state) => ["state", state])))).toEqual({});
});

it("reads `not_state` as the other states, and rejects a query that leaves none", () => {
  expect(
    parsed(new URLSearchParams("not_state=healthy&not_state=stale&state=stale&state=revoked")),
  ).toEqual({
    states: ["revoked"],
  });
  expect(parsed(new URLSearchParams("not_state=healthy")).states).toHaveLength(
    fleetStates.length - 1,
  );
  expect(() => parsed(new URLSearchParams("state=stale&not_state=stale"))).toThrow(
    "must leave a state",
  );
});

it("takes a parameter of one value once, and at most a hundred values of a list", () => {
  const once = filterPartNames.filter((part) => !("value" in filterParts[part]));
  expect(once.length).toBeGreaterThan(0);
  for (const part of once) {
    const { parameter } = filterParts[part];
    expect(() => parsed(new URLSearchParams(`${parameter}=1&${parameter}=1`))).toThrow(
      "must be given once",
    );
  }
  const devices = (count: number) =>
    new URLSearchParams(Array.from({ length: count }, (_, n) => ["device", `d${n}`]));
  expect(parsed(devices(100)).device).toHaveLength(100);
  expect(() => parsed(devices(101))).toThrow("at most 100 times");
});
