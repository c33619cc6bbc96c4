import { enableCompileCache, registerHooks } from "node:module";

/** For each module Node reads the package.json above it anew; this package's has 180 KB, and 100 of its modules are loaded. */
const packageWithHugeManifest = "/node_modules/drizzle-orm/";

/**
 * Halves the time that the imports after it take. Compiled code is kept in `cacheDirectory` where that is writable: never Node's default
 * place under the system's temporary directory, where whoever else can write could plant code. Relative imports within one large
 * package are resolved without reading its manifest again.
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
