import type { ConfiguredCore } from "#functions/core.ts";
import { Problem, requireFound } from "#functions/problems.ts";
import { type ConfigRow, findConfig } from "#functions/store/config/configs.ts";
import type { Executor } from "#functions/store/database/database.ts";
import type { FleetRules } from "#functions/store/fleet/conditions.ts";
import { candidateHosts, findRefusingVersions } from "#functions/store/rollout/preview.ts";
import {
  countCandidates,
  countOverlaps,
  countTargets,
  type DescribedRollout,
  findOpenRollouts,
  insertRollout,
  insertTargets,
  insertWaves,
  isCandidate,
  lockRolloutCreation,
  noTargets,
  type RolloutRow,
  type WaveRow,
} from "#functions/store/rollout/rollouts.ts";
import { uuidv7 } from "#kit/entropy.ts";
import { type FleetFilter, selectsEveryHost } from "#proto/fleet-health/filter.ts";
import type { RolloutBody } from "#proto/rollout/rollout.ts";
import { type By, recordOperatorAction } from "../audit/audit-log.ts";
import { refuseUnknowing } from "../config/unknown-keys.ts";
import { parseFilter } from "../fleet/parse-filter.ts";
import { readFleetRules } from "../fleet/rules.ts";
import type { Operator } from "../operator/authenticate.ts";
import { refuseOverlap } from "./control.ts";
import { wavesReach } from "./waves.ts";

/** Parses the selection of a change. Throws 422 `validation_failed` if an empty filter and `all` contradict each other. */
const parseSelection = ({ filter: query, all }: RolloutBody, now: number): FleetFilter => {
  const filter = parseFilter(query, now);
  if (selectsEveryHost(filter) === all) return filter;
  const message = all
    ? "must be left out with all"
    : 'selects every host: name some, or send {"all": true}';
  throw new Problem("validation_failed", { errors: [{ path: "filter", message }] });
};

/**
 * Creates a rollout and fixes its targets, in an order that depends on its id alone. The job assigns the first wave. Throws 404 `not_found`
 * for the config, 409 `rollout_overlap` if an open rollout has one of the hosts, 422 `validation_failed` for a filter without a condition,
 * unless the request says `all`, `rollout_without_targets`, `rollout_waves_invalid`, `config_kind_mismatch`, `config_key_unknown`, or
 * `rollout_config_unparsable` if, for every version among the hosts, several collectors or the only host reject the config now.
 */
export const createRollout = async (
  core: ConfiguredCore,
  by: By,
  body: RolloutBody,
): Promise<DescribedRollout> => {
  const { db, clock } = core;
  const filter = parseSelection(body, clock.now());
  const rules = await readFleetRules(core);
  return db.transaction(async (tx) => {
    await lockRolloutCreation(tx);
    const config = requireFound(await findConfig(tx, body.config_id), "config");
    const versions = await countCandidates(tx, filter, rules);
    const changeable = versions.reduce((sum, { hosts }) => sum + hosts, 0);
    if (changeable === 0) throw new Problem("rollout_without_targets");
    await refuseUnknowing(config, candidateHosts(tx, filter, rules));
    await refuseUnparsable(tx, config, { filter, rules, versions });
    const reaches = wavesReach(body.waves, changeable);
    await refuseOverlap(await countOverlaps(tx, filter, rules, await findOpenRollouts(tx)));

    const row = rolloutOf(core, by.caller, body);
    await insertRollout(tx, row);
    await insertTargets(tx, row.id, { filter, rules, reaches });
    const counts = await countTargets(tx, row.id);
    const waves = body.waves.map((wave, index): WaveRow => {
      const counted = counts.get(index + 1) ?? noTargets;
      return {
        rolloutId: row.id,
        number: index + 1,
        percent: "percent" in wave ? wave.percent : null,
        count: "count" in wave ? wave.count : null,
        soakSeconds: wave.soak_seconds,
        targets: Object.values(counted).reduce((sum, each) => sum + each, 0),
        ...counted,
        startedAt: null,
        soakUntil: null,
        completedAt: null,
        comparison: null,
      };
    });
    await insertWaves(tx, ...waves);
    await recordOperatorAction(tx, core, by, {
      action: "rollout.create",
      target: { type: "rollout", id: row.id },
      details: {
        config_id: config.id,
        config_hash: config.configHash,
        filter: body.filter,
        hosts: changeable,
        skipped: waves.reduce((sum, { skipped }) => sum + skipped, 0),
        waves: body.waves,
        gate: body.gate,
        on_breach: body.on_breach,
      },
    });
    const described = waves.map((wave) => ({ ...wave, revertedFailed: 0 }));
    return { ...row, configName: config.name, configHash: config.configHash, waves: described };
  });
};

/** One host must not decide for others: its report counts for its version only if another host reports the same, or for itself. */
const refuseUnparsable = async (
  tx: Executor,
  config: ConfigRow,
  {
    filter,
    rules,
    versions,
  }: {
    filter: FleetFilter;
    rules: FleetRules;
    versions: readonly { version: string; hosts: number }[];
  },
) => {
  const refusing = new Map(
    (await findRefusingVersions(tx, config.configHash, { rules, past: false })).map((each) => [
      each.version,
      each,
    ]),
  );
  for (const { version, hosts } of versions) {
    const [only, another] = refusing.get(version)?.identityIds ?? [];
    if (only === undefined) return;
    if (another === undefined && !(hosts === 1 && (await isCandidate(tx, filter, rules, only))))
      return;
  }
  throw new Problem("rollout_config_unparsable", {
    detail: "Collectors of every version among these hosts reject the config",
    extensions: {
      versions: versions.map(({ version }) => ({ version, errors: refusing.get(version)?.errors })),
    },
  });
};

const rolloutOf = (
  { clock, entropy }: ConfiguredCore,
  operator: Operator,
  body: RolloutBody,
): RolloutRow => {
  const now = new Date(clock.now());
  return {
    id: uuidv7({ clock, entropy }),
    configId: body.config_id,
    filter: body.filter,
    state: "running",
    wave: 1,
    maxFailedPercent: body.gate.max_failed_percent,
    conditions: [...body.gate.states],
    onBreach: body.on_breach,
    stopsIfWorse: body.gate.worse_than_control,
    gateFrom: now,
    reasonCode: null,
    reason: null,
    breach: null,
    createdAt: now,
    createdBy: operator.userId,
    createdByWorkload: operator.kind === "workload",
    createdByName: operator.email,
    updatedAt: now,
    endedAt: null,
  };
};
