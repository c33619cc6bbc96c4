/** Configs and the hosts that should run them, as core reports them to `/changes/configs` (docs/rollouts.md). */
import * as v from "valibot";
import { agentKinds, Id, IsoTimestamp, PageOf, TextOrNull, TimestampOrNull } from "../values.ts";
import { configProgress } from "./vocabulary.ts";

/** The progress of a config: how many hosts should run it, and how many do. Revoked hosts are not counted. */
export const ProgressHosts = v.strictObject({
  /** Hosts whose desired config it is: the sum of `running`, `failed`, `drifted` and `silent`. */
  desired: v.number(),
  ...v.entriesFromList(configProgress, v.number()),
  /** Of the silent hosts, those whose last heartbeat names it. */
  silent_running: v.number(),
  /** Hosts whose last heartbeat names it although another config, or none, is desired. */
  undesired: v.number(),
  /** When the last host began to report it; null unless the newest heartbeats of all hosts do. */
  finished_at: TimestampOrNull,
});

/** The progress of a config. */
export type ProgressHosts = v.InferOutput<typeof ProgressHosts>;

const config = {
  id: Id,
  name: TextOrNull,
  /** The kind of agent that can run it; absent from an earlier core. */
  kind: v.optional(v.picklist(agentKinds), "svc-collector"),
  config_hash: v.string(),
  size_bytes: v.number(),
  created_at: IsoTimestamp,
  created_by: v.string(),
  /** The email of `created_by`; null for a person whom the directory no longer has. */
  created_by_email: TextOrNull,
  /** Counted by `config_hash`: two configs with the same content have the same hosts. */
  hosts: ProgressHosts,
};

/** A published config without its text. */
export const ListedConfig = v.strictObject(config);

/** A published config without its text. */
export type ListedConfig = v.InferOutput<typeof ListedConfig>;

/** Response of `GET /v1/collector/configs`: one page, newest first. */
export const ConfigList = PageOf(ListedConfig);

/** Response of `GET /v1/collector/configs`. */
export type ConfigList = v.InferOutput<typeof ConfigList>;

/** The most batches in a config's detail. */
export const batchesMax = 50;

/** The assignments of a config that one person made within one minute. */
export const AssignmentBatch = v.strictObject({
  from: IsoTimestamp,
  until: IsoTimestamp,
  assigned_by: v.string(),
  assigned_by_email: TextOrNull,
  assigned: v.number(),
  /** Those that have not been replaced or removed. */
  current: v.number(),
});

/** The assignments of a config that one person made within one minute. */
export type AssignmentBatch = v.InferOutput<typeof AssignmentBatch>;

/** Response of `GET /v1/collector/configs/{id}`. */
export const ConfigDetail = v.strictObject({
  generated_at: IsoTimestamp,
  ...config,
  /** The published text, verbatim. Core publishes no config with a secret. */
  yaml: v.string(),
  /** The newest batches. */
  batches: v.array(AssignmentBatch),
});

/** Response of `GET /v1/collector/configs/{id}`. */
export type ConfigDetail = v.InferOutput<typeof ConfigDetail>;

/** One assignment of a config to a host. */
export const ConfigAssignment = v.strictObject({
  id: Id,
  identity_id: Id,
  identity: v.string(),
  device_id: v.string(),
  assigned_at: IsoTimestamp,
  assigned_by: v.string(),
  assigned_by_email: TextOrNull,
  /** When another config or none was assigned. */
  ended_at: TimestampOrNull,
  /** The config progress of the host; null once the assignment has ended or the host is revoked. */
  progress: v.nullable(v.picklist(configProgress)),
  /** When the host first reported that it runs the config; null while its last heartbeat does not. */
  applied_at: TimestampOrNull,
});

/** One assignment of a config to a host. */
export type ConfigAssignment = v.InferOutput<typeof ConfigAssignment>;

/** Response of `GET /v1/collector/configs/{id}/assignments`: one page, newest first. */
export const AssignmentPage = PageOf(ConfigAssignment);

/** Response of `GET /v1/collector/configs/{id}/assignments`. */
export type AssignmentPage = v.InferOutput<typeof AssignmentPage>;

/** The most hashes in a report of configs that core never stored. */
export const unstoredMax = 100;

/** Response of `GET /v1/collector/configs/unstored`: hashes that hosts run and no published config has. */
export const UnstoredConfigs = v.strictObject({
  generated_at: IsoTimestamp,
  /** All such hashes; `items` has those with the most hosts. */
  hashes: v.number(),
  items: v.array(
    v.strictObject({
      config_hash: v.string(),
      running: v.number(),
      last_heartbeat_at: TimestampOrNull,
    }),
  ),
});

/** Response of `GET /v1/collector/configs/unstored`. */
export type UnstoredConfigs = v.InferOutput<typeof UnstoredConfigs>;
