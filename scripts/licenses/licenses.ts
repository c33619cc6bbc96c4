import parseExpression, { type Info } from "spdx-expression-parse";
import type { ShippedPackage } from "./shipped-packages.ts";

/** The licences that a shipped package may have: permissive ones alone. */
const permissive: ReadonlySet<string> = new Set([
  "0BSD",
  "Apache-2.0",
  "BlueOak-1.0.0",
  "BSD-2-Clause",
  "BSD-3-Clause",
  "CC0-1.0",
  "ISC",
  "MIT",
  "MIT-0",
  "PostgreSQL",
  "Python-2.0",
  "Unlicense",
  "Zlib",
]);

/** A package whose package.json does not state its licence, and where it does. */
export interface LicenseException {
  license: string;
  reason: string;
}

/** Reasoned exceptions, by `name@version`: each is read again when the version changes. */
export const licenseExceptions: Readonly<Record<string, LicenseException>> = {
  "url-template@2.0.8": {
    license: "BSD-3-Clause",
    reason: 'package.json says "BSD"; its LICENSE file has the three clauses',
  },
};

/** Returns the licence of a package as an SPDX expression: what it states, or what an exception says; null without either. */
export const licenseOf = (
  { name, version, license }: ShippedPackage,
  exceptions: Readonly<Record<string, LicenseException>> = licenseExceptions,
): string | null => exceptions[`${name}@${version}`]?.license ?? license;

/** Returns a sentence for each package whose licence is missing, unknown or not permissive. */
export const licenseFaults = (
  packages: readonly ShippedPackage[],
  exceptions: Readonly<Record<string, LicenseException>> = licenseExceptions,
): string[] =>
  packages.flatMap((entry) => {
    const license = licenseOf(entry, exceptions);
    const named = `${entry.name}@${entry.version}`;
    if (license === null) return [`${named}: package.json states no licence`];
    try {
      return isPermissive(parseExpression(license)) ? [] : [`${named}: ${license} is not permissive`];
    } catch {
      return [`${named}: "${license}" is not an SPDX expression`];
    }
  });

/** With a choice one permissive licence is enough; with several at once all must be. */
const isPermissive = (info: Info): boolean => {
  if ("conjunction" in info)
    return info.conjunction === "or"
      ? isPermissive(info.left) || isPermissive(info.right)
      : isPermissive(info.left) && isPermissive(info.right);
  return permissive.has(info.license);
};

/** Returns the table of packages and licences, for people. */
export const printLicenses = (
  artifacts: ReadonlyArray<{ path: string; packages: readonly ShippedPackage[] }>,
): string => {
  const users = new Map<string, { entry: ShippedPackage; paths: string[] }>();
  for (const { path, packages } of artifacts)
    for (const entry of packages) {
      const key = `${entry.name}@${entry.version}`;
      users.set(key, { entry, paths: [...(users.get(key)?.paths ?? []), path] });
    }
  const rows = [...users.entries()].sort(([a], [b]) => (a < b ? -1 : 1));
  const lines = rows.map(([key, { entry, paths }]) => `| ${key} | ${licenseOf(entry)} | ${paths.join(", ")} |`);
  return `# Licences of what the release contains\n\n| package | licence | in |\n| --- | --- | --- |\n${lines.join("\n")}\n`;
};

/** Returns the licence texts of the packages of an artifact, which their licences require to go with the code. */
export const printNotices = (packages: readonly ShippedPackage[]): string =>
  packages
    .map((entry) => {
      const title = `${entry.name} ${entry.version} (${licenseOf(entry)})`;
      const texts = entry.texts.map(({ file, text }) => `-- ${file}\n\n${text.replaceAll("\r\n", "\n").trim()}\n`);
      return `${"=".repeat(80)}\n${title}\n\n${texts.join("\n") || "(the package contains no licence file)\n"}`;
    })
    .join("\n");
