/**
 * Finds the versions and platforms of a fleet, and decides on them with the semver library: once for each distinct one, not for each row.
 */
import { type SQL, sql } from "drizzle-orm";
import { compare, gte, valid } from "semver";
import { versionRangePattern } from "#proto/fleet-health/filter.ts";
import type { Executor } from "../database/database.ts";
import { asIs, readOne } from "../database/statements.ts";

/** Finds every version and platform of the fleet, each with one step through its index. */
export const findFleetNames = (db: Executor) => {
  const distinct = (column: SQL) => sql`array(
    with recursive step as (
      (select ${column} as value from fleet order by 1 limit 1)
      union all
      select (select ${column} from fleet where ${column} > step.value order by 1 limit 1) from step
      where step.value is not null
    ) select value from step where value is not null)`;
  return readOne(
    db,
    { versions: asIs<string[]>, platforms: asIs<string[]> },
    sql`select to_json(${distinct(sql`version`)}) as versions, to_json(${distinct(sql`platform`)}) as platforms`,
  );
};

/** A leading "v" is not SemVer. */
const isSemver = (version: string) => valid(version) !== null && !version.startsWith("v");

/** Reports whether a version is SemVer and at least the minimum. */
export const isSupported = (version: string, minimum: string | null): boolean =>
  isSemver(version) && (minimum === null || gte(version, minimum));

/** Returns the versions that match a comparison such as `<1.4`; none that is not SemVer. Missing parts are 0. */
export const versionsInRange = (range: string, versions: readonly string[]): string[] => {
  const [, operator = "", wanted = ""] = versionRangePattern.exec(range) ?? [];
  const [numbers = "", ...prerelease] = wanted.split("-");
  const [major = "0", minor = "0", patch = "0"] = numbers.split(".");
  const bound = [`${major}.${minor}.${patch}`, ...prerelease].join("-");
  if (valid(bound) === null) return [];
  return versions.filter((version) => {
    if (!isSemver(version)) return false;
    const order = compare(version, bound);
    if (order === 0) return operator.endsWith("=");
    return operator.startsWith("<") ? order < 0 : order > 0;
  });
};

/** Returns the versions that match a pattern, in which `*` stands for any characters. */
export const versionsLike = (pattern: string, versions: readonly string[]): string[] => {
  const parts = pattern.split("*");
  return versions.filter((version) => matchesParts(version, parts));
};

/** Reports whether a text contains the parts in order, with anything in between. */
const matchesParts = (text: string, [first = "", ...rest]: readonly string[]) => {
  const last = rest.pop();
  if (last === undefined) return text === first;
  if (!text.startsWith(first) || !text.endsWith(last) || text.length < first.length + last.length)
    return false;
  let at = first.length;
  for (const part of rest) {
    const found = text.indexOf(part, at);
    if (found < 0) return false;
    at = found + part.length;
  }
  return at <= text.length - last.length;
};

/** Returns the platforms that are this platform or, without a slash, of this operating system. */
export const platformsLike = (wanted: string, platforms: readonly string[]): string[] =>
  platforms.filter(
    (platform) =>
      platform === wanted || (!wanted.includes("/") && platform.startsWith(`${wanted}/`)),
  );
