import { expect, it } from "vitest";
import type { FleetCondition } from "#proto/fleet-health/vocabulary.ts";
import { evidenceParts } from "./format.ts";

const read = (state: FleetCondition, evidence: string) =>
  evidenceParts({ state, evidence })
    .map(({ text, exact }) => (exact === undefined ? text : `${text} (${exact})`))
    .join("");

it.each([
  [
    "stale",
    "last heartbeat 7500 s ago, threshold 180 s",
    "last heartbeat 2 h 5 min (7500 s) ago, threshold 3 min (180 s)",
  ],
  ["stale", "last heartbeat 45 s ago, threshold 30 s", "last heartbeat 45 s ago, threshold 30 s"],
  [
    "cert_expiring",
    "the certificate has 0 s left, threshold 453600 s, and no successor",
    "the certificate has 0 s left, threshold 5 d 6 h (453600 s), and no successor",
  ],
  [
    "renewal_failed",
    "the certificate expired 86400 s ago and has no successor",
    "the certificate expired 1 d (86400 s) ago and has no successor",
  ],
  [
    "queue_at_risk",
    "the queue holds 99614720 of 104857600 bytes, oldest record 3600 s",
    "the queue holds 95 MiB of 100 MiB (99614720 of 104857600 bytes), oldest record 1 h (3600 s)",
  ],
  [
    "queue_at_risk",
    "records were dropped, rejected or lost since the previous heartbeat, 123456 dropped and 7 dead letters in all, up to 4321 lost in a database restore",
    "records were dropped, rejected or lost since the previous heartbeat, 123,456 (123456) dropped and 7 dead letters in all, up to 4,321 (4321) lost in a database restore",
  ],
] as const)("of %s, %j, reads %j", (state, evidence, text) =>
  expect(read(state, evidence)).toBe(text),
);

it("in a host's own words is left unchanged", () => {
  for (const [state, evidence] of [
    ["config_invalid", "sources[0].timeout: must be below 7500 s"],
    ["renewal_failed", "core answered 503, next attempt in 600 s"],
  ] as const)
    expect(evidenceParts({ state, evidence })).toEqual([{ text: evidence }]);
});
