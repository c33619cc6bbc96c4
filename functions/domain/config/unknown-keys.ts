import { lt, valid } from "semver";
import { Problem } from "#functions/problems.ts";
import type { AskedHosts, ConfigRow, VersionHosts } from "#functions/store/config/configs.ts";
import packageJson from "#package.json" with { type: "json" };
import { componentTypesIn, type NewKey, newKeysIn } from "#proto/collector-config/new-keys.ts";
import { type ParsedTree, parseTree } from "#proto/collector-config/tree.ts";

/** A config, as far as it decides which hosts can run it. */
type Runnable = Pick<ConfigRow, "kind" | "yaml">;

/** Hosts of a version that cannot run a config, with the reason and the names of the first. */
interface UnknowingHosts extends VersionHosts {
  reason: string;
}

/**
 * Finds the hosts that cannot run a config: agents of another kind, versions that do not know one of its keys, and agents that have
 * reported their components and lack one of its own.
 */
export const findUnknowing = async (
  { kind, yaml }: Runnable,
  hosts: AskedHosts,
): Promise<UnknowingHosts[]> => {
  const parsed = parseTree(yaml);
  if (!parsed.ok) return [];
  const newKeys = kind === "svc-collector" ? newKeysIn(parsed.tree) : [];
  const versions = await hosts.byVersion(newKeys.length === 0 ? { notOf: kind } : {});
  return [
    ...versions.flatMap((each) =>
      each.agent === kind
        ? withoutKeys(each, newKeys)
        : withReason(each, `is an agent of kind ${each.agent}`),
    ),
    ...(kind === "otelcol" ? await findLacking(parsed, hosts) : []),
  ];
};

/** A collector of core's own version knows all that core knows, also before a release has its number. */
const withoutKeys = (each: VersionHosts, newKeys: readonly NewKey[]): UnknowingHosts[] => {
  const unknown = newKeys.filter(({ since }) => isOlder(each.version, since));
  if (unknown.length === 0 || each.version === packageJson.version) return [];
  const keys = unknown.slice(0, namedMax).map(({ key }) => `\`${key}\``);
  return [withReason(each, `does not know ${keys.join(", ")}`)];
};

const findLacking = async (
  { tree, errorAt }: ParsedTree,
  hosts: AskedHosts,
): Promise<UnknowingHosts[]> => {
  const types = componentTypesIn(tree);
  const lacking = await hosts.lacking([...types.keys()]);
  return lacking.map(({ missing, ...each }) => {
    const named = missing.slice(0, namedMax).map((type) => {
      const { line, column } = errorAt(types.get(type) ?? [], "", "key");
      return `\`${type}\` (line ${line}, column ${column})`;
    });
    return withReason(each, `has no ${named.join(", ")}`);
  });
};

const withReason = (each: VersionHosts, reason: string): UnknowingHosts => {
  const { hosts, names } = each;
  const others = hosts > names.length ? ` and ${hosts - names.length} more` : "";
  return { ...each, reason: `${reason}: ${names.join(", ")}${others}` };
};

/** Reports whether a version is known to be below another: one that is not SemVer may be anything. */
const isOlder = (version: string, since: string) => valid(version) !== null && lt(version, since);

/** The keys or types that a refusal names. */
const namedMax = 3;

/** Throws 422 `config_kind_mismatch` or `config_key_unknown`, which name hosts and reasons, if `findUnknowing` finds hosts. */
export const refuseUnknowing = async (config: Runnable, hosts: AskedHosts): Promise<void> => {
  const found = await findUnknowing(config, hosts);
  if (found.length === 0) return;
  const isOfOtherKind = found.some(({ agent }) => agent !== config.kind);
  const detail = found.map(
    ({ version, hosts: count, reason }) =>
      `${count} ${count === 1 ? "host runs" : "hosts run"} ${version}, which ${reason}`,
  );
  throw new Problem(isOfOtherKind ? "config_kind_mismatch" : "config_key_unknown", {
    detail: `${detail.join("; ")}; ${isOfOtherKind ? `select hosts by agent:${config.kind}` : "upgrade them or leave them out"}`,
  });
};
