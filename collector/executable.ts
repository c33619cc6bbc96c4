import { runCommandLine } from "./commands/command-line.ts";
import { systemEnv } from "./env.ts";

/** The entry of the single executable. It contains its own code cache, and is one CommonJS file without top-level await. */
runCommandLine(process.argv.slice(2), systemEnv()).then((exitCode) => {
  process.exitCode = exitCode;
});
