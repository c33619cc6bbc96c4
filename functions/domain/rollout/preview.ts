import { createTwoFilesPatch } from "diff";
import type { ReadCore } from "#functions/core.ts";
import { requireFound } from "#functions/problems.ts";
import { findConfig } from "#functions/store/config/configs.ts";
import {
  candidateHosts,
  findPresentConfigs,
  findRefusedHosts,
  findRefusingVersions,
} from "#functions/store/rollout/preview.ts";
import {
  countCandidates,
  countOverlaps,
  findOpenRollouts,
} from "#functions/store/rollout/rollouts.ts";
import { parseTree } from "#proto/collector-config/tree.ts";
import { previewMax, type RolloutPreview } from "#proto/rollout/rollout.ts";
import { findUnknowing } from "../config/unknown-keys.ts";
import { parseFilter } from "../fleet/parse-filter.ts";
import { readFleetRules } from "../fleet/rules.ts";

/** Changed lines of a diff: a longer one takes long, and nobody reads it. */
const changedLinesMax = 2000;
/** The longest time for all diffs of a preview, because core does nothing else meanwhile. */
const diffsMsMax = 250;

interface ConfigText {
  configHash: string;
  yaml: string;
}

/**
 * Returns the hosts that a rollout of a config to a query would find, and changes nothing. Throws 404 `not_found` for the config and 422
 * `validation_failed` for a faulty query.
 */
export const previewRollout = async (
  core: ReadCore,
  { configId, query }: { configId: string; query: string },
): Promise<RolloutPreview> => {
  const { db, clock } = core;
  const filter = parseFilter(query, clock.now());
  const config = requireFound(await findConfig(db, configId), "config");
  const rules = await readFleetRules(core);
  const present = await findPresentConfigs(db, filter, rules, { configId, limit: previewMax + 1 });
  const refused = await findRefusedHosts(db, filter, rules, previewMax);
  const versions = await countCandidates(db, filter, rules);
  const refusing = await findRefusingVersions(db, config.configHash, { rules, past: true });
  const unknowing = await findUnknowing(config, candidateHosts(db, filter, rules));
  const overlaps = await countOverlaps(db, filter, rules, await findOpenRollouts(db));
  const changeable = versions.reduce((sum, { hosts }) => sum + hosts, 0);
  const hostsOf = new Map(versions.map(({ version, hosts }) => [version, hosts]));
  const changing = present.filter((each) => each.config?.id !== config.id).slice(0, previewMax);
  const unchanged = present.find((each) => each.config?.id === config.id)?.hosts ?? 0;
  const diffsFrom = clock.monotonic();
  const diffWith = (before: ConfigText | null) => {
    const msMax = before === null ? 0 : diffsMsMax - (clock.monotonic() - diffsFrom);
    return before === null || msMax <= 0
      ? { diff: null, rules: null }
      : {
          diff: diffOf(before, config, msMax),
          rules: config.kind === "otelcol" ? null : changedRules(before.yaml, config.yaml),
        };
  };
  return {
    config: { id: config.id, name: config.name, config_hash: config.configHash },
    filter: query,
    hosts: changeable + refused.hosts,
    will_change: changeable - unchanged,
    unchanged,
    skipped: refused.hosts,
    from: changing.map(({ config: before, hosts }) => ({
      config: before && { id: before.id, name: before.name, config_hash: before.configHash },
      hosts,
      ...diffWith(before),
    })),
    refused: refused.rows.map(({ identityId, identity, reason }) => ({
      identity_id: identityId,
      identity,
      reason,
    })),
    unparsable: [
      ...unknowing.map(({ version, hosts, reason }) => ({ version, hosts, errors: [reason] })),
      ...refusing.flatMap(({ version, errors }) => {
        const hosts = hostsOf.get(version);
        return hosts === undefined ? [] : [{ version, hosts, errors }];
      }),
    ],
    in_other_rollouts: overlaps.map(({ rolloutId, hosts }) => ({ rollout_id: rolloutId, hosts })),
  };
};

const diffOf = (before: ConfigText, after: ConfigText, msMax: number) => {
  const options = { maxEditLength: changedLinesMax, timeout: msMax };
  const names = [nameOf(before), nameOf(after)] as const;
  return (
    createTwoFilesPatch(...names, before.yaml, after.yaml, undefined, undefined, options) ?? null
  );
};

type RuleChange = NonNullable<RolloutPreview["from"][number]["rules"]>[number];

/** Returns the rules that a config adds, removes and changes. */
const changedRules = (before: string, after: string): RuleChange[] => {
  const old = rulesOf(before);
  const wanted = rulesOf(after);
  const changeOf = (rule: string): RuleChange["change"] => {
    if (!old.has(rule)) return "added";
    return wanted.has(rule) ? "changed" : "removed";
  };
  return [...new Set([...old.keys(), ...wanted.keys()])]
    .filter((rule) => old.get(rule) !== wanted.get(rule))
    .map((rule) => ({ rule, change: changeOf(rule) }));
};

/** Returns the rules of a published config, of all sources and of each, as JSON by name. */
const rulesOf = (yaml: string) => {
  const parsed = parseTree(yaml);
  // Core has checked it by the schema when it was published.
  const config = (parsed.ok ? parsed.tree : {}) as Ruled & { sources?: Ruled[] };
  const rules = [config, ...(config.sources ?? [])].flatMap(({ processors = [] }) => processors);
  return new Map(rules.map((rule) => [rule.name, JSON.stringify(rule)]));
};

/** The part of a config, or of a source, that has rules. */
interface Ruled {
  processors?: { name: string }[];
}

const nameOf = ({ configHash }: ConfigText) => configHash.slice(0, 12);
