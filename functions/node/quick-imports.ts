import { enableCompileCache, registerHooks } from "node:module";

/** Node reads the package.json above each module again; this package's has 180 KB, and 100 of its modules are loaded. */
const packageWithHugeManifest = "/node_modules/drizzle-orm/";

/**
 * Halves the time of the imports after it. Caches compiled code in `cacheDirectory` if that is writable; Node's default, under the
 * system's temporary directory, would let other users plant code. Resolves relative imports within one large package without reading its
 * manifest.
 */
export const quickenImports = (cacheDirectory: string): void => {
  enableCompileCache(cacheDirectory);
  registerHooks({
    resolve: (specifier, context, next) =>
      specifier.startsWith(".") && context.parentURL?.includes(packageWithHugeManifest)
        ? { url: new URL(specifier, context.parentURL).href, format: "module", shortCircuit: true }
        : next(specifier, context),
  });
};
