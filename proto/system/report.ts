import * as v from "valibot";
import {
  Id,
  IsoTimestamp,
  NumberOrNull,
  TextOrNull,
  TimestampOrNull,
  WholeNumber,
} from "../values.ts";

/** The states of a part, the worst last. `disabled`: not configured, or stopped on purpose. */
export const partStates = ["disabled", "ready", "warning", "not_ready"] as const;

/** The state of a part of the system. */
export type PartState = (typeof partStates)[number];

const State = v.picklist(partStates);
const Count = WholeNumber();

/** A part of the system, as readiness and alerts judge it. */
export const SystemPart = v.strictObject({
  area: v.picklist(["core", "database", "export", "certificate"]),
  /** The core or export that it belongs to; null where all cores share it. */
  of: TextOrNull,
  name: v.string(),
  state: State,
  detail: v.string(),
  /** Since when it has this state; null where nobody recorded that. */
  since: TimestampOrNull,
});

/** A part of the system. */
export type SystemPart = v.InferOutput<typeof SystemPart>;

/** Response of `GET /v1/system` (docs/operate.md). */
export const SystemReport = v.strictObject({
  generated_at: IsoTimestamp,
  /** The worst of its parts. */
  state: State,
  /** Parts in a worse state first. */
  parts: v.array(SystemPart),
  cores: v.array(
    v.strictObject({
      id: Id,
      machine: v.string(),
      version: v.string(),
      started_at: IsoTimestamp,
      reported_at: IsoTimestamp,
      state: v.picklist(["running", "silent", "stopped"]),
      /** The hosts' streams that are open on it; null without ingest. */
      streams: v.nullable(Count),
      /** Hosts whose last heartbeat this machine received, and that are not silent. Cores of one machine have the same. */
      hosts: Count,
      /** How far its clock is ahead of the database's. */
      clock_ahead_seconds: v.number(),
    }),
  ),
  database: v.strictObject({
    version: Count,
    bytes: Count,
    /** Of the stored telemetry, indexes included. */
    telemetry_bytes: Count,
    /** The oldest day of which telemetry is stored. */
    oldest_day: TimestampOrNull,
    retention_days: v.nullable(Count),
    /** Statements that have run for more than ten seconds, and the longest of them. */
    slow_statements: Count,
    slowest_seconds: v.number(),
    standbys: v.array(v.strictObject({ name: v.string(), lag_seconds: NumberOrNull })),
  }),
  /** Times of the last week in which no core could receive. */
  outages: v.array(v.strictObject({ began_at: IsoTimestamp, ended_at: TimestampOrNull })),
});

/** Response of `GET /v1/system`. */
export type SystemReport = v.InferOutput<typeof SystemReport>;
