import * as v from "valibot";
import { caChannels } from "../management/ca-bundle.ts";
import { Id, IsoTimestamp, NumberOrNull, TimestampOrNull, WholeNumber } from "../values.ts";

const Count = WholeNumber();

/** The bundle of one channel, the hosts by the bundle that they report, and those that lack the newest. */
export const ChannelTrust = v.strictObject({
  channel: v.picklist(caChannels),
  /** The newest bundle; null while none is published. */
  bundle: v.nullable(
    v.strictObject({
      number: Count,
      sha256: v.string(),
      published_at: IsoTimestamp,
      roots: v.array(v.strictObject({ subject: v.string(), ends_at: IsoTimestamp })),
    }),
  ),
  /** The hosts that are not revoked, by the bundle that they report. */
  hosts: v.strictObject({
    newest: Count,
    older: Count,
    /** A higher number than the newest, as after a restore of the database. */
    ahead: Count,
    none: Count,
    /** Their config refuses bundles. */
    pinned: Count,
    /** Their collectors report nothing of bundles. */
    unreported: Count,
  }),
  /** The first hundred that lack the newest bundle, those that have been silent for the longest first. */
  lacking: v.array(
    v.strictObject({
      identity_id: Id,
      identity: v.string(),
      number: NumberOrNull,
      is_pinned: v.boolean(),
      is_silent: v.boolean(),
      last_heartbeat_at: TimestampOrNull,
    }),
  ),
  /** Whether an old root may go. */
  advice: v.string(),
});

/** The bundle and the hosts of one channel. */
export type ChannelTrust = v.InferOutput<typeof ChannelTrust>;

/** Response of `GET /v1/system/trust` (docs/rotate.md). */
export const SystemTrust = v.strictObject({
  generated_at: IsoTimestamp,
  channels: v.array(ChannelTrust),
  /** What a host that was away for the whole change needs. */
  away: v.string(),
});

/** Response of `GET /v1/system/trust`. */
export type SystemTrust = v.InferOutput<typeof SystemTrust>;
