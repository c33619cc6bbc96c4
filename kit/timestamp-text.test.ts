import { expect, it } from "vitest";
import { timestampOf } from "./timestamp-text.ts";

it.each([
  ["2026-11-22 19:31:51+00", "2026-11-22T19:31:51.000Z"],
  ["2026-11-22 19:31:51.1+00", "2026-11-22T19:31:51.100Z"],
  ["2026-11-22 19:31:51.12+00", "2026-11-22T19:31:51.120Z"],
  ["2026-11-22 19:31:51.109+00", "2026-11-22T19:31:51.109Z"],
  ["2026-11-22 19:31:51.109999+00", "2026-11-22T19:31:51.109Z"],
  ["2026-11-22 19:31:51.1+02", "2026-11-22T17:31:51.100Z"],
  ["2026-11-22T19:31:51.109Z", "2026-11-22T19:31:51.109Z"],
])("writes %s as %s", (text, timestamp) => {
  expect(timestampOf(text)).toBe(timestamp);
});

it("rejects an infinite timestamp", () => {
  expect(() => timestampOf("-infinity")).toThrow(RangeError);
});
