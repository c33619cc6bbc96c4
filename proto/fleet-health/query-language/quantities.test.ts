import fc from "fast-check";
import { expect, it } from "vitest";
import { filterSecondsMax } from "../vocabulary.ts";
import { parseDuration, writeDuration } from "./quantities.ts";

it.each([
  ["10m", 600],
  ["3d", 259_200],
  ["0s", 0],
  ["90s", 90],
  ["3650d", filterSecondsMax],
])("parses %s as %d seconds", (text, seconds) => expect(parseDuration(text)).toBe(seconds));

it.each(["", "10", "m", "1.5h", "-1d", "1w", "1 d", "10M", "3651d", "9999999999s", "1h30m"])(
  "rejects %j",
  (text) => expect(parseDuration(text)).toBeUndefined(),
);

it.each([
  [0, "0s"],
  [600, "10m"],
  [90, "90s"],
  [3_600, "1h"],
  [5_400, "90m"],
  [259_200, "3d"],
])("writes %d seconds as %s", (seconds, text) => expect(writeDuration(seconds)).toBe(text));

it("parses what it writes", () =>
  fc.assert(
    fc.property(fc.integer({ min: 0, max: filterSecondsMax }), (seconds) => {
      expect(parseDuration(writeDuration(seconds))).toBe(seconds);
    }),
  ));
