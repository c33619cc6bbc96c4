import { expect, it } from "vitest";
import type { FleetFilter } from "./filter.ts";
import { narrowFilter } from "./narrow-filter.ts";

it.each<[string, FleetFilter, FleetFilter, FleetFilter | undefined]>([
  ["adds a part", { text: ["a"] }, { version: ["1"] }, { text: ["a"], version: ["1"] }],
  [
    "keeps the values that both name",
    { version: ["1", "2"] },
    { version: ["2", "3"] },
    { version: ["2"] },
  ],
  ["finds no host without a common value", { version: ["1"] }, { version: ["2"] }, undefined],
  [
    "keeps the narrower conditions",
    { condition: ["stale"] },
    { condition: ["stale", "revoked"] },
    { condition: ["stale"] },
  ],
  [
    "cannot require two conditions",
    { condition: ["stale"] },
    { condition: ["revoked"] },
    undefined,
  ],
  [
    "excludes what either excludes",
    { notVersion: ["1"] },
    { notVersion: ["2", "1"] },
    { notVersion: ["1", "2"] },
  ],
  [
    "takes the shorter time until expiry",
    { expiresWithinSeconds: 5 },
    { expiresWithinSeconds: 9 },
    { expiresWithinSeconds: 5 },
  ],
  [
    "takes the later start of expiry",
    { notExpiresWithinSeconds: 5 },
    { notExpiresWithinSeconds: 9 },
    { notExpiresWithinSeconds: 9 },
  ],
  [
    "finds what is in two ranges of expiry",
    { expires: ["2026-01-01T00:00:00Z..2026-01-05T00:00:00Z"] },
    { expires: ["2026-01-03T00:00:00Z..2026-01-09T00:00:00Z"] },
    { expires: ["2026-01-03T00:00:00Z..2026-01-05T00:00:00Z"] },
  ],
  [
    "takes the greater age",
    { heartbeatOlderThanSeconds: 5 },
    { heartbeatOlderThanSeconds: 9 },
    { heartbeatOlderThanSeconds: 9 },
  ],
  [
    "takes the smaller bound of the age",
    { notHeartbeatOlderThanSeconds: 5 },
    { notHeartbeatOlderThanSeconds: 9 },
    { notHeartbeatOlderThanSeconds: 5 },
  ],
])("%s", (_, filter, figure, both) => expect(narrowFilter(filter, figure)).toEqual(both));
