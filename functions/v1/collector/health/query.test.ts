import * as v from "valibot";
import { expect, it } from "vitest";
import { FilterQuery, filterOf } from "./query.ts";

it("I6: a state that is asked for a hundred times is judged once", () => {
  const state = Array(500).fill(["stale", "healthy"]).flat();
  expect(filterOf(v.parse(FilterQuery, { state }))).toEqual({ states: ["stale", "healthy"] });
});
