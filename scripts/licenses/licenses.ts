import parseExpression, { type Info } from "spdx-expression-parse";
import type { ShippedPackage } from "./shipped-packages.ts";

/** The licenses that a shipped package may have: permissive ones alone. */
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

/** A package whose package.json does not state its license, and where it does. */
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

/** A package of the operating system, or Node itself, in an image. */
export interface SystemPackage {
  name: string;
  version: string;
  purl: string;
  license: string;
  /** The digest of its only file, if it is one file. */
  sha256?: string;
}

/**
 * The licenses of the Debian packages that an image may contain, from their copyright files, which the image contains too. They are
 * libraries that Node links; the runtime exception and the LGPL leave the license of the programs alone.
 */
const debianLicenses: Readonly<Record<string, string>> = {
  libc6: "LGPL-2.1-or-later",
  "libgcc-s1": "GPL-3.0-or-later WITH GCC-exception-3.1",
  "libstdc++6": "GPL-3.0-or-later WITH GCC-exception-3.1",
  libatomic1: "GPL-3.0-or-later WITH GCC-exception-3.1",
};

/** Returns the license of a Debian package. Throws for one that nobody has read. */
export const debianLicenseOf = (name: string): string => {
  const license = debianLicenses[name];
  if (license === undefined) throw new Error(`${name}: no license is known of this Debian package`);
  return license;
};

/** Returns the license of a package as an SPDX expression: what it states, or what an exception says; null without either. */
export const licenseOf = (
  { name, version, license }: ShippedPackage,
  exceptions: Readonly<Record<string, LicenseException>> = licenseExceptions,
): string | null => exceptions[`${name}@${version}`]?.license ?? license;

/** Returns a sentence for each package whose license is missing, unknown or not permissive. */
export const licenseFaults = (
  packages: readonly ShippedPackage[],
  exceptions: Readonly<Record<string, LicenseException>> = licenseExceptions,
): string[] =>
  packages.flatMap((entry) => {
    const license = licenseOf(entry, exceptions);
    const named = `${entry.name}@${entry.version}`;
    if (license === null) return [`${named}: package.json states no license`];
    try {
      return isPermissive(parseExpression(license))
        ? []
        : [`${named}: ${license} is not permissive`];
    } catch {
      return [`${named}: "${license}" is not an SPDX expression`];
    }
  });

/** With a choice one permissive license is enough; with several at once all must be. */
const isPermissive = (info: Info): boolean => {
  if ("conjunction" in info)
    return info.conjunction === "or"
      ? isPermissive(info.left) || isPermissive(info.right)
      : isPermissive(info.left) && isPermissive(info.right);
  return permissive.has(info.license);
};

/** Returns the table of packages and licenses, for people. */
export const printLicenses = (
  artifacts: ReadonlyArray<{
    path: string;
    packages: readonly ShippedPackage[];
    system?: readonly SystemPackage[];
  }>,
): string => {
  const users = new Map<string, { license: string | null; paths: string[] }>();
  for (const { path, packages, system = [] } of artifacts)
    for (const entry of [...packages, ...system]) {
      const key = `${entry.name}@${entry.version}`;
      const license = "purl" in entry ? entry.license : licenseOf(entry);
      users.set(key, { license, paths: [...(users.get(key)?.paths ?? []), path] });
    }
  const rows = [...users.entries()].sort(([a], [b]) => (a < b ? -1 : 1));
  const lines = rows.map(
    ([key, { license, paths }]) => `| ${key} | ${license} | ${paths.join(", ")} |`,
  );
  return `# Licenses of what the release contains\n\n| package | license | in |\n| --- | --- | --- |\n${lines.join("\n")}\n`;
};

/** Returns the license texts of the packages of an artifact, which their licenses require to go with the code. */
export const printNotices = (packages: readonly ShippedPackage[]): string =>
  packages
    .map((entry) => {
      const title = `${entry.name} ${entry.version} (${licenseOf(entry)})`;
      const texts = entry.texts.map(
        ({ file, text }) => `-- ${file}\n\n${text.replaceAll("\r\n", "\n").trim()}\n`,
      );
      return `${"=".repeat(80)}\n${title}\n\n${texts.join("\n") || "(the package contains no license file)\n"}`;
    })
    .join("\n");
