import { bundlePrograms, programNames, programPaths } from "./bundle-programs.ts";
import { bundleUi, uiPath } from "./bundle-ui.ts";

/**
 * `bun run build [-- svc-server …]`: bundles the programs and the operator UI, or only the named ones, into `dist/`. What is current is
 * left alone. svc-web needs the UI.
 */
const args = process.argv.slice(2).filter((arg) => arg !== "--");
const unknown = args.filter((arg) => !programNames.some((name) => name === arg));
if (unknown.length > 0) {
  console.error(`build: the programs are ${programNames.join(", ")}`);
  process.exit(2);
}
const names = args.length === 0 ? programNames : programNames.filter((name) => args.includes(name));
const withUi = names.includes("svc-web");
await Promise.all([bundlePrograms(names), withUi ? bundleUi() : undefined]);
for (const name of names) console.log(`${name}: ${programPaths[name]}`);
if (withUi) console.log(`ui: ${uiPath}`);
