import * as v from "valibot";
import type { ConfigAssignment, ListedConfig, ProgressHosts } from "../../../../proto/fleet-health/config-report.ts";
import { Id, IsoTimestamp } from "../../../../proto/values.ts";
import type { ConfigWithProgress } from "../../../domain/config/config-reports.ts";
import type { ConfigRow } from "../../../store/config/configs.ts";
import type { AssignmentListRow, ProgressCounts } from "../../../store/config/hosts.ts";

/** A config that was just published. */
export const ConfigView = v.strictObject({
  id: Id,
  name: v.nullable(v.string()),
  config_hash: v.string(),
  size_bytes: v.number(),
  created_at: IsoTimestamp,
  created_by: v.string(),
});

/** Returns the view of a row. */
export const configView = (row: Omit<ConfigRow, "yaml">): v.InferOutput<typeof ConfigView> => ({
  id: row.id,
  name: row.name,
  config_hash: row.configHash,
  size_bytes: row.sizeBytes,
  created_at: row.createdAt.toISOString(),
  created_by: row.createdBy,
});

/** Returns the view of a config and its hosts. */
export const listedConfigView = (row: ConfigWithProgress): ListedConfig => ({
  ...configView(row),
  created_by_email: row.createdByEmail,
  hosts: hostsView(row.hosts),
});

const hostsView = ({ running, failed, drifted, silent, silentRunning, undesired, appliedAt }: ProgressCounts) => {
  const desired = running + failed + drifted + silent;
  const isFinished = desired > 0 && running + silentRunning === desired;
  return {
    desired,
    silent,
    running,
    failed,
    drifted,
    silent_running: silentRunning,
    undesired,
    finished_at: isFinished && appliedAt !== null ? appliedAt.toISOString() : null,
  } satisfies ProgressHosts;
};

/** Returns the view of an assignment. */
export const assignmentView = (row: AssignmentListRow): ConfigAssignment => ({
  id: row.id,
  identity_id: row.identityId,
  identity: row.identity,
  device_id: row.deviceId,
  assigned_at: row.assignedAt.toISOString(),
  assigned_by: row.assignedBy,
  assigned_by_email: row.assignedByEmail,
  ended_at: row.endedAt?.toISOString() ?? null,
  progress: row.progress,
  applied_at: row.appliedAt?.toISOString() ?? null,
});
