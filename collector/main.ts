import { enableCompileCache } from "node:module";
import { fileURLToPath } from "node:url";

/*
 * Halves the start time where this directory is writable, and does nothing where it is not. Never Node's default place under the
 * system's temporary directory: whoever else can write there could plant code.
 */
enableCompileCache(fileURLToPath(new URL("../.cache/compile", import.meta.url)));

const [{ runCommandLine }, { systemEnv }] = await Promise.all([
  import("./commands/command-line.ts"),
  import("./env.ts"),
]);
process.exitCode = await runCommandLine(process.argv.slice(2), systemEnv());
