import * as v from "valibot";
import type { ConfigWithProgress } from "#functions/domain/config/config-reports.ts";
import { viewOf } from "#functions/http/route.ts";
import type { ProgressCounts } from "#functions/store/config/hosts.ts";
import {
  ConfigAssignment,
  ListedConfig,
  ProgressHosts,
} from "#proto/fleet-health/config-report.ts";

/** A config that was just published. */
export const ConfigView = v.omit(ListedConfig, ["created_by_email", "hosts"]);

/** Returns the view of a row. */
export const configView = viewOf(ConfigView);

const listedView = viewOf(ListedConfig);

/** Returns the view of a config and its hosts. */
export const listedConfigView = (row: ConfigWithProgress): ListedConfig =>
  listedView({ ...row, hosts: hostsView(row.hosts) });

const progressView = viewOf(ProgressHosts);

const hostsView = (counts: ProgressCounts): ProgressHosts => {
  const desired = counts.running + counts.failed + counts.drifted + counts.silent;
  const isFinished = desired > 0 && counts.running + counts.silentRunning === desired;
  return progressView({ ...counts, desired, finishedAt: isFinished ? counts.appliedAt : null });
};

/** Returns the view of an assignment. */
export const assignmentView = viewOf(ConfigAssignment);
