import type { ConfiguredCore, ReadCore } from "#functions/core.ts";
import { requireFound } from "#functions/problems.ts";
import { findConfig } from "#functions/store/config/configs.ts";
import {
  type AssignmentBatchRow,
  type AssignmentFilter,
  type AssignmentListRow,
  type ConfigFilter,
  countProgress,
  findAssignmentBatches,
  findListedConfig,
  findUnstoredHashes,
  type ListedConfigRow,
  listAssignments,
  listConfigs,
  type ProgressCounts,
  type UnstoredHash,
} from "#functions/store/config/hosts.ts";
import type { Paged, PageRequest } from "#functions/store/database/statements.ts";
import { batchesMax, unstoredMax } from "#proto/fleet-health/config-report.ts";
import { auditedExport, type RequestedExport } from "../audit/audited-export.ts";
import { readCountingRules } from "../fleet/rules.ts";

/** A config and the hosts of its hash. */
export interface ConfigWithProgress extends ListedConfigRow {
  hosts: ProgressCounts;
}

/** Returns one page of the published configs and their hosts, newest first. */
export const browseConfigs = async (
  core: ReadCore,
  filter: ConfigFilter,
  page: PageRequest,
): Promise<Paged<ConfigWithProgress>> => {
  const { rows, next } = await listConfigs(core.db, filter, page);
  const hashes = rows.map(({ configHash }) => configHash);
  const hostsOf = await countProgress(core.db, await readCountingRules(core), hashes);
  return { rows: rows.map((row) => ({ ...row, hosts: hostsOf(row.configHash) })), next };
};

/** A config with its text, its hosts and its newest batches of assignments. */
interface DescribedConfig extends ConfigWithProgress {
  now: Date;
  yaml: string;
  batches: AssignmentBatchRow[];
}

/** Returns a config, its hosts and its newest batches of assignments. Throws 404 `not_found`. */
export const describeConfig = async (core: ReadCore, id: string): Promise<DescribedConfig> => {
  const rules = await readCountingRules(core);
  const [config, batches] = await Promise.all([
    findListedConfig(core.db, id).then((found) => requireFound(found, "config")),
    findAssignmentBatches(core.db, id, batchesMax),
  ]);
  const hostsOf = await countProgress(core.db, rules, [config.configHash]);
  return { ...config, now: rules.now, hosts: hostsOf(config.configHash), batches };
};

/** Returns the hashes that hosts run and no published config has, those with the most hosts first. */
export const findUnstored = async (
  core: ReadCore,
): Promise<{ now: Date; rows: UnstoredHash[]; hashes: number }> => {
  const rules = await readCountingRules(core);
  return { now: rules.now, ...(await findUnstoredHashes(core.db, rules, unstoredMax)) };
};

/** Returns one page of a config's assignments, newest first. Throws 404 `not_found`. */
export const browseAssignments = async (
  core: ReadCore,
  filter: AssignmentFilter & { configId: string },
  page: PageRequest,
): Promise<Paged<AssignmentListRow>> => {
  await requireConfig(core, filter.configId);
  return listAssignments(core.db, await readCountingRules(core), filter, page);
};

const requireConfig = async ({ db }: ReadCore, id: string) => {
  requireFound(await findConfig(db, id), "config");
};

/** Returns every config of a list and its hosts, newest first, in batches; audited. */
export const exportConfigs = (
  core: ConfiguredCore,
  filter: ConfigFilter,
  request: RequestedExport,
): AsyncGenerator<ConfigWithProgress[], void, void> =>
  auditedExport(
    core,
    request,
    { action: "config.export", target: { type: "config_export", id: "configs" } },
    (page: PageRequest) => browseConfigs(core, filter, page),
  );

/** Returns every assignment of a config under a filter, newest first, in batches; audited. Throws 404 `not_found`. */
export const exportAssignments = async (
  core: ConfiguredCore,
  filter: AssignmentFilter & { configId: string },
  request: RequestedExport,
): Promise<AsyncGenerator<AssignmentListRow[], void, void>> => {
  await requireConfig(core, filter.configId);
  const rules = await readCountingRules(core);
  return auditedExport(
    core,
    request,
    { action: "config.export", target: { type: "collector_config", id: filter.configId } },
    (page: PageRequest) => listAssignments(core.db, rules, filter, page),
  );
};
