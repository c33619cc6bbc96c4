import { bundlePrograms, programPaths } from "./bundle-programs.ts";
import { bundleUi, uiPath } from "./bundle-ui.ts";

/** `bun run build`: bundles the programs and the operator UI into `dist/`. */
await Promise.all([bundlePrograms(), bundleUi()]);
for (const [name, path] of Object.entries({ ...programPaths, ui: uiPath })) process.stdout.write(`${name}: ${path}\n`);
