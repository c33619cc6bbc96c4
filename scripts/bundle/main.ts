import { bundlePrograms, programPaths } from "./bundle-programs.ts";

/** `bun run build`: the programs as they are shipped, in `dist/`. */
await bundlePrograms();
for (const [name, path] of Object.entries(programPaths)) process.stdout.write(`${name}: ${path}\n`);
