import { expect, it } from "vitest";
import type { FilterPart, FleetFilter } from "./filter.ts";
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
    "finds what is in two ranges of expiry",
    { expires: ["2026-01-01T00:00:00Z..2026-01-05T00:00:00Z"] },
    { expires: ["2026-01-03T00:00:00Z..2026-01-09T00:00:00Z"] },
    { expires: ["2026-01-03T00:00:00Z..2026-01-05T00:00:00Z"] },
  ],
  [
    "keeps each label that either requires",
    { label: ["env:prod", "team:x"] },
    { label: ["env:prod"] },
    { label: ["env:prod", "team:x"] },
  ],
  [
    "adds the label of another key",
    { label: ["team:x"] },
    { label: ["env:prod"] },
    { label: ["env:prod", "team:x"] },
  ],
  [
    "keeps the values of a label that both name",
    { label: ["env:dev", "env:prod", "team:x"] },
    { label: ["env:prod"] },
    { label: ["env:prod", "team:x"] },
  ],
  [
    "keeps the value of a label that has any",
    { label: ["env:prod", "team:*"] },
    { label: ["env:*", "team:x"] },
    { label: ["env:prod", "team:x"] },
  ],
  [
    "finds no host with two values of a label",
    { label: ["env:dev", "team:x"] },
    { label: ["env:prod"] },
    undefined,
  ],
  [
    "requires both ranges of versions",
    { versionRange: ["<2"] },
    { versionRange: [">=1.4"] },
    { versionRange: ["<2", ">=1.4"] },
  ],
  [
    "cannot require one of two pairs of sources",
    { source: ["a", "b"] },
    { source: ["b", "c"] },
    undefined,
  ],
  [
    "takes the earlier start of a silence",
    { silentSince: "2026-01-03T00:00:00Z" },
    { silentSince: "2026-01-01T00:00:00Z" },
    { silentSince: "2026-01-01T00:00:00Z" },
  ],
])("%s", (_, filter, figure, both) => expect(narrowFilter(filter, figure)).toEqual(both));

it.each<[FilterPart, FilterPart]>([
  ["heartbeatOlderThanSeconds", "heartbeatWithinSeconds"],
  ["heartbeatOlderThanSeconds", "notHeartbeatOlderThanSeconds"],
  ["envelopeOlderThanSeconds", "envelopeWithinSeconds"],
  ["droppedMoreThan", "notDroppedMoreThan"],
  ["queueAbovePercent", "notQueueAbovePercent"],
  ["queueAboveBytes", "notQueueAboveBytes"],
  ["notExpiresWithinSeconds", "expiresWithinSeconds"],
  ["notChangedWithinSeconds", "changedWithinSeconds"],
  ["notQueueFullWithinSeconds", "queueFullWithinSeconds"],
])("takes the greater bound of %s and the smaller one of %s", (lower, upper) => {
  expect(narrowFilter({ [lower]: 5 }, { [lower]: 9 })).toEqual({ [lower]: 9 });
  expect(narrowFilter({ [upper]: 5 }, { [upper]: 9 })).toEqual({ [upper]: 5 });
});
