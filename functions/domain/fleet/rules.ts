import { gte, valid } from "semver";
import type { Executor } from "../../store/database.ts";
import { findFleetWords } from "../../store/fleet-report.ts";
import type { FleetRules } from "../../store/fleet-rows.ts";

/** The rules by which a fleet is judged at a moment: the words of the fleet are read, and its unsupported versions told. */
export const readFleetRules = async (
  db: Executor,
  { now, thresholds }: Pick<FleetRules, "now" | "thresholds">,
): Promise<FleetRules> => {
  const { versions, platforms } = await findFleetWords(db);
  const unsupportedVersions = versions.filter((version) => !isSupported(version, thresholds.versionMin));
  return { now, thresholds, versions, platforms, unsupportedVersions };
};

/** Whether a version is SemVer and at least the minimum. A leading "v" is not SemVer. */
const isSupported = (version: string, minimum: string | null): boolean =>
  valid(version) !== null && !version.startsWith("v") && (minimum === null || gte(version, minimum));
