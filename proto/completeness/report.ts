import * as v from "valibot";
import { Id, IsoTimestamp, NumberOrNull, TextOrNull, TimestampOrNull } from "../values.ts";
import { hourStates, queueEndings, shortageKinds } from "./hour-state.ts";

/** The hours that a report covers at most: 31 days. */
export const reportHoursMax = 31 * 24;
/** The hours that a report covers without `from`: a week. */
export const reportHoursDefault = 7 * 24;

const State = v.picklist(hourStates, "must be a state of an hour");

/** In the unit of the kind (`Shortage`); null where nobody can say how much. */
const ShortageView = v.strictObject({
  kind: v.picklist(shortageKinds),
  count: NumberOrNull,
  reason: v.optional(v.string()),
});

/** A shortage of an hour. */
export type ShortageView = v.InferOutput<typeof ShortageView>;

/** An account of a host, as core has it. */
const AccountView = v.strictObject({
  queue_id: v.string(),
  number: v.string(),
  from: IsoTimestamp,
  to: IsoTimestamp,
  received_at: IsoTimestamp,
  /** Its sequences in the queue; null for none. */
  first_sequence: TextOrNull,
  last_sequence: TextOrNull,
  stopped: v.boolean(),
  /** Where its records are stored. */
  sink: v.string(),
  /** Why core refuses it; null for an accepted one. */
  refused: TextOrNull,
});

/** A queue of a host that binds its hours, or did; `queue_id` is empty for those beyond 64. */
export const HostQueueView = v.strictObject({
  queue_id: v.string(),
  first_seen_at: IsoTimestamp,
  last_seen_at: IsoTimestamp,
  ended_at: TimestampOrNull,
  ending: v.nullable(v.picklist(queueEndings)),
});

/** The queues of a host, the newest first. */
export const HostQueues = v.strictObject({ items: v.array(HostQueueView) });

/** An hour of a host. */
const HostHourView = v.strictObject({
  /** The start of the hour. */
  from: IsoTimestamp,
  /** Null while it is not decided, and where core has none. */
  state: v.nullable(State),
  shortages: v.array(ShortageView),
  /** What the accounts of the hour add up to; null when core has none, or no longer. */
  figures: v.nullable(
    v.strictObject({
      accepted: v.number(),
      stored: v.number(),
      rejected: v.number(),
      discarded: v.number(),
      lost: v.number(),
      missing: v.number(),
      expired: v.number(),
      damaged: v.number(),
      file_gap_bytes: v.number(),
      /** Records that the collector refused, by reason. */
      refused: v.record(v.string(), v.number()),
      /** Records that rules of the host's config dropped, which are not among the accepted, and redacted, before the queue. */
      rules: v.array(
        v.strictObject({ rule: v.string(), filtered: v.number(), redacted: v.number() }),
      ),
      ran_seconds: v.number(),
      /** How far the host's clock was ahead of core's at most. */
      clock_ahead_seconds: v.number(),
      /** The exports that are on, and whether they have delivered the hour. */
      delivered: v.array(
        v.strictObject({
          export: v.string(),
          delivered: v.boolean(),
          /** Records that the backend rejected, and spans, log records and data points of those that it accepted otherwise. */
          rejected: v.number(),
          rejected_items: v.number(),
        }),
      ),
    }),
  ),
  accounts: v.array(AccountView),
});

/** An hour of a host. */
export type HostHourView = v.InferOutput<typeof HostHourView>;

/** Response of `GET /v1/collector/hosts/{id}/completeness`. */
export const HostCompleteness = v.strictObject({
  generated_at: IsoTimestamp,
  identity_id: Id,
  host_id: v.string(),
  from: IsoTimestamp,
  to: IsoTimestamp,
  /** Every hour of the range in which the host was enrolled, the oldest first. */
  hours: v.array(HostHourView),
});

/** Response of `GET /v1/collector/hosts/{id}/completeness`. */
export type HostCompleteness = v.InferOutput<typeof HostCompleteness>;

/** An hour of a host in a list. */
const ListedHour = v.strictObject({
  from: IsoTimestamp,
  state: State,
  shortages: v.array(ShortageView),
});

/** A host, and its hours in the range. */
const HostStrip = v.strictObject({
  host_id: v.string(),
  /** Null for a host that is not enrolled. */
  identity_id: v.nullable(Id),
  device_id: TextOrNull,
  /** Its hours in the states that the list is of. */
  hours: v.number(),
  /** The hour that is short of most records, else the newest of them. */
  worst: v.nullable(ListedHour),
  /** The start of its first hour of the range; hours before a host existed are none. */
  from: IsoTimestamp,
  /** The states of its hours from then on, in order: each for a number of hours in a row, and what these are short of together. */
  runs: v.array(
    v.strictObject({
      state: v.nullable(State),
      hours: v.number(),
      shortages: v.array(ShortageView),
    }),
  ),
  /** The queues whose accounts these hours wait for; empty where core knows none by name. */
  open_queues: v.array(v.string()),
});

/** A host, and its hours in the range. */
export type HostStrip = v.InferOutput<typeof HostStrip>;

/** Response of `GET /v1/collector/completeness`. */
export const FleetCompleteness = v.strictObject({
  generated_at: IsoTimestamp,
  from: IsoTimestamp,
  to: IsoTimestamp,
  /** The end of the last hour of the range whose states are settled; null for none. */
  settled_until: TimestampOrNull,
  /** When core settles the next hour; null while no host is enrolled. */
  settles_at: TimestampOrNull,
  /** The hosts that have a state in that hour. */
  hosts: v.number(),
  /** The hosts of the list, on all its pages: those with an hour in one of its states. */
  hosts_listed: v.number(),
  /** The settled hours of the range, the oldest first, with the number of hosts in each state. */
  hours: v.array(v.strictObject({ from: IsoTimestamp, hosts: v.record(State, v.number()) })),
  /** Those that lost most records first, then those with the most such hours. */
  items: v.array(HostStrip),
  next_cursor: TextOrNull,
});

/** Response of `GET /v1/collector/completeness`. */
export type FleetCompleteness = v.InferOutput<typeof FleetCompleteness>;
