import { lt, valid } from "semver";
import { Problem } from "#functions/problems.ts";
import type { VersionHosts } from "#functions/store/config/configs.ts";
import packageJson from "#package.json" with { type: "json" };
import { newKeysIn } from "#proto/collector-config/new-keys.ts";
import { parseTree } from "#proto/collector-config/tree.ts";

/** Hosts of a version that rejects a config, with the keys and the names of the first. */
interface UnknowingHosts extends VersionHosts {
  reason: string;
}

/**
 * Finds the hosts whose version does not know a key of a config; reads hosts only where a version may not. A collector of core's own
 * version knows all that core knows, also before a release has its number.
 */
export const findUnknowing = async (
  yaml: string,
  readHosts: () => Promise<VersionHosts[]>,
): Promise<UnknowingHosts[]> => {
  const parsed = parseTree(yaml);
  const newKeys = parsed.ok ? newKeysIn(parsed.tree) : [];
  if (newKeys.length === 0) return [];
  return (await readHosts()).flatMap((each) => {
    const unknown = newKeys.filter(({ since }) => isOlder(each.version, since));
    if (unknown.length === 0 || each.version === packageJson.version) return [];
    const { hosts, names } = each;
    const keys = unknown.slice(0, keysMax).map(({ key }) => `\`${key}\``);
    const others = hosts > names.length ? ` and ${hosts - names.length} more` : "";
    return [{ ...each, reason: `does not know ${keys.join(", ")}: ${names.join(", ")}${others}` }];
  });
};

/** Reports whether a version is known to be below another: one that is not SemVer may be anything. */
const isOlder = (version: string, since: string) => valid(version) !== null && lt(version, since);

/** The keys that a refusal names. */
const keysMax = 3;

/** Throws 422 `config_key_unknown`, which names hosts and keys, if `findUnknowing` finds hosts. */
export const refuseUnknowing = async (
  ...search: Parameters<typeof findUnknowing>
): Promise<void> => {
  const found = await findUnknowing(...search);
  if (found.length === 0) return;
  const detail = found.map(
    ({ version, hosts, reason }) =>
      `${hosts} ${hosts === 1 ? "host runs" : "hosts run"} ${version}, which ${reason}`,
  );
  throw new Problem("config_key_unknown", {
    detail: `${detail.join("; ")}; upgrade them or leave them out`,
  });
};
