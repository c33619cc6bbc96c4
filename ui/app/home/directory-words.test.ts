import { describe, expect, it } from "vitest";
import type { DirectoryStatus } from "../../../proto/operator/directory-status.ts";
import { directoryFaults } from "./directory-words.ts";

const synced: DirectoryStatus = {
  last_sync: { finished_at: "2026-11-20T16:00:00.000Z", outcome: "synced", reason_code: null },
  snapshot_at: "2026-11-20T16:00:00.000Z",
  snapshot_age_seconds: 60,
  sync_interval_seconds: 3600,
  failures_in_a_row: 0,
  missing_groups: [],
  suspect_setting: null,
  counts: {
    people: { active: 12, suspended: 1, archived: 0, unverified: 0, absent: 0 },
    scopes: { read: 12, audit: 2, admin: 1 },
    absences_held: 0,
  },
};
const ended = (outcome: "held" | "refused" | "failed", reason_code: string | null = null) => ({
  ...synced,
  last_sync: { finished_at: "2026-11-20T16:00:00.000Z", outcome, reason_code },
});

describe("what is said of the directory's sync", () => {
  it("is nothing when all is well", () => expect(directoryFaults(synced)).toEqual([]));

  it("is that it never ran, failed, or was not believed, and why", () => {
    expect(directoryFaults({ ...synced, last_sync: null })).toEqual(["The directory has not been synced yet."]);
    expect(directoryFaults({ ...ended("failed", "unreachable"), failures_in_a_row: 3 })).toEqual([
      "The last sync failed 3 times in a row (unreachable); what was read before stays.",
    ]);
    expect(directoryFaults({ ...ended("refused"), failures_in_a_row: 1 })).toEqual([
      "The last sync was not believed; what was read before stays.",
    ]);
  });

  it("names the setting that looks wrong", () => {
    expect(directoryFaults({ ...ended("held", "mass_unverified"), suspect_setting: "SVC_DIRECTORY_DOMAIN" })).toEqual([
      "Hardly anybody is in the domain that core is told of: SVC_DIRECTORY_DOMAIN looks wrong.",
    ]);
  });

  it("names absences that are held, and groups that are missing", () => {
    const counts = { ...synced.counts, absences_held: 1 };
    expect(directoryFaults({ ...ended("held"), counts, missing_groups: ["svc-auditor@example.test"] })).toEqual([
      "1 absence is held until three syncs agree.",
      "The group svc-auditor@example.test was not found, so it gives no scope.",
    ]);
  });
});
