import { expect, it } from "vitest";
import { restoreReasonOf } from "./restored.ts";

const identity = { systemIdentifier: "7", databaseOid: "5", timeline: 1 };
const left = { ...identity, epoch: 2, restoredAt: null, reason: null, isOriginal: true };
const seen = { epoch: 2, syncs: 10 };

it.each([
  ["a new database, or one of a version without lineages", undefined, {}, null, 0, null],
  ["the database that core left", left, {}, null, 10, null],
  [
    "a dump that was loaded into the same database",
    { ...left, isOriginal: false },
    {},
    null,
    10,
    "rows_copied",
  ],
  ["another server", left, { systemIdentifier: "8" }, null, 10, "other_server"],
  [
    "another database of the server, or a copy of it",
    left,
    { databaseOid: "6" },
    null,
    10,
    "other_database",
  ],
  [
    "a recovery from the archive while no core ran",
    left,
    { timeline: 2 },
    null,
    10,
    "other_timeline",
  ],
  ["a promotion that core lived through", left, { timeline: 2 }, seen, 10, null],
  ["a promotion of a standby that lacks a push", left, { timeline: 2 }, seen, 9, "state_lost"],
  ["a snapshot of the disk under a running core", left, {}, seen, 9, "state_lost"],
  ["a snapshot from before an earlier restore", { ...left, epoch: 1 }, {}, seen, 12, "state_lost"],
  ["a backup from before lineages, under a running core", undefined, {}, seen, 10, "state_lost"],
  [
    "a loaded dump under a running core, even of this moment",
    { ...left, isOriginal: false },
    {},
    seen,
    10,
    "rows_copied",
  ],
  ["a restore that another core has noticed", { ...left, epoch: 3 }, {}, seen, 4, null],
  [
    "a server whose identity the role may not read",
    left,
    { systemIdentifier: null, timeline: null },
    null,
    10,
    null,
  ],
] as const)("Q12: knows %s", (_, lineage, changes, memory, syncs, reason) => {
  expect(restoreReasonOf({ lineage, syncs }, { ...identity, ...changes }, memory)).toBe(reason);
});
