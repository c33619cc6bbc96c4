import { expect, it } from "vitest";
import type { DirectoryStatus } from "#proto/operator/directory-status.ts";
import { directoryFaults } from "./directory-faults.ts";

const synced: DirectoryStatus = {
  provider: "google",
  last_push_at: null,
  last_sync: { finished_at: "2026-11-20T16:00:00.000Z", outcome: "synced", reason_code: null },
  snapshot_at: "2026-11-20T16:00:00.000Z",
  snapshot_age_seconds: 60,
  sync_interval_seconds: 3600,
  failures_in_a_row: 0,
  missing_groups: [],
  suspect_setting: null,
  restored_at: null,
  access_held: { people: 0, memberships: 0 },
  counts: {
    people: { active: 12, held: 0, suspended: 1, archived: 0, unverified: 0, absent: 0 },
    scopes: { read: 12, audit: 2, admin: 1 },
    absences_held: 0,
  },
};
const ended = (outcome: "held" | "refused" | "failed", reason_code: string | null = null) => ({
  ...synced,
  last_sync: { finished_at: "2026-11-20T16:00:00.000Z", outcome, reason_code },
});

it("are none when all is well", () => expect(directoryFaults(synced)).toEqual([]));

it("include a SCIM provider that never pushed; an old push is none", () => {
  const scim: DirectoryStatus = { ...synced, provider: "scim" };
  for (const status of [scim, { ...scim, last_sync: null }])
    expect(directoryFaults(status)).toEqual([
      "The identity provider has pushed nobody yet, so nobody new can sign in.",
    ]);
  expect(directoryFaults({ ...scim, last_push_at: "2026-01-20T16:00:00.000Z" })).toEqual([]);
});

it("include a sync that never ran, failed or was rejected, and why", () => {
  expect(directoryFaults({ ...synced, last_sync: null })).toEqual([
    "The directory has not been synced yet.",
  ]);
  expect(directoryFaults({ ...ended("failed", "unreachable"), failures_in_a_row: 3 })).toEqual([
    "The last 3 syncs failed (unreachable); the previous snapshot stays in use.",
  ]);
  expect(
    directoryFaults({ ...ended("failed", "directory_unreachable"), failures_in_a_row: 1 }),
  ).toEqual([
    "The directory does not answer. The last sync failed (directory_unreachable); the previous snapshot stays in use.",
  ]);
  expect(directoryFaults({ ...ended("refused"), failures_in_a_row: 1 })).toEqual([
    "The last sync was rejected; the previous snapshot stays in use.",
  ]);
  expect(directoryFaults({ ...ended("refused", "empty"), failures_in_a_row: 2 })).toEqual([
    "The last 2 syncs were rejected (empty); the previous snapshot stays in use.",
  ]);
});

it("name the setting that looks wrong", () => {
  expect(
    directoryFaults({
      ...ended("held", "mass_unverified"),
      suspect_setting: "SVC_DIRECTORY_DOMAIN",
    }),
  ).toEqual(["Almost nobody is in core's domain: check SVC_DIRECTORY_DOMAIN."]);
});

it("name people and groups that are missing", () => {
  const counts = { ...synced.counts, absences_held: 1 };
  expect(
    directoryFaults({ ...ended("held"), counts, missing_groups: ["svc-auditor@example.test"] }),
  ).toEqual([
    "1 person is missing from the directory; scopes are removed once three syncs agree.",
    "The group svc-auditor@example.test was not found, so it grants no scope.",
  ]);
});
