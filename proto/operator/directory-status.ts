import * as v from "valibot";
import { IsoTimestamp, TextOrNull, TimestampOrNull, WholeNumber } from "../values.ts";

const Count = WholeNumber();

/** Response of `GET /v1/directory/status` (docs/directory.md): the newest sync, and the counts of people that core knows. */
export const DirectoryStatus = v.strictObject({
  provider: v.picklist(["google", "file", "scim"]),
  last_sync: v.nullable(
    v.strictObject({
      finished_at: IsoTimestamp,
      outcome: v.picklist(["synced", "held", "refused", "failed"]),
      reason_code: TextOrNull,
    }),
  ),
  /** When an identity provider last pushed a change over SCIM; null if never. */
  last_push_at: TimestampOrNull,
  snapshot_at: TimestampOrNull,
  snapshot_age_seconds: v.nullable(Count),
  failures_in_a_row: Count,
  missing_groups: v.array(v.string()),
  /** The variable of core's configuration that the directory suggests is wrong. */
  suspect_setting: TextOrNull,
  /** When core last noticed that its database was restored from a backup; null if never. */
  restored_at: TimestampOrNull,
  /** What a restored backup grants and nobody has confirmed: people, and their memberships of the groups that grant scopes. */
  access_held: v.strictObject({ people: Count, memberships: Count }),
  sync_interval_seconds: Count,
  counts: v.strictObject({
    people: v.strictObject({
      active: Count,
      held: Count,
      suspended: Count,
      archived: Count,
      unverified: Count,
      absent: Count,
    }),
    scopes: v.strictObject({ read: Count, audit: Count, admin: Count }),
    absences_held: Count,
  }),
});

/** Response of `GET /v1/directory/status`. */
export type DirectoryStatus = v.InferOutput<typeof DirectoryStatus>;
