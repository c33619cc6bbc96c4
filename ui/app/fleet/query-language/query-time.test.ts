import { expect, it } from "vitest";
import { secondOf, splitTime, writeAt } from "./query-time.ts";

const now = new Date("2026-11-27T11:30:00.000Z");

it("takes the past time from a query, and leaves every other word where it is", () => {
  expect(splitTime("state:stale at:02:41 web", now)).toEqual({
    rest: "state:stale          web",
    at: "2026-11-27T02:41:00Z",
    faults: [],
  });
  expect(splitTime("AT:2h", now).at).toBe("2026-11-27T09:30:00Z");
  for (const query of ['"at:02:41"', "seat:4", "-at:02:41", "x"])
    expect(splitTime(query, now)).toEqual({ rest: query, at: undefined, faults: [] });
});

it("names what is no past time, and a second one", () => {
  expect(splitTime("x at:noon", now).faults).toMatchObject([
    { from: 2, to: 9, message: expect.stringContaining("02:41") },
  ]);
  expect(splitTime("at:1h at:2h", now).faults).toMatchObject([
    { from: 6, message: "at: is given twice: keep one." },
  ]);
});

it("writes a past time as it is read again", () => {
  for (const at of ["2026-11-27T02:41Z", "2026-11-20T02:41:07.250Z", "2026-11-26T11:45:00Z"])
    expect(splitTime(writeAt(at, now), now).at).toBe(secondOf(at));
  expect([writeAt("2026-11-27T02:41Z", now), writeAt(undefined, now)]).toEqual(["at:02:41", ""]);
});
