import { runCommandLine } from "./commands/command-line.ts";
import { systemEnv } from "./env.ts";

/** The entry of the single executable, which has its code cache inside: one CommonJS file, so nothing may be awaited up here. */
runCommandLine(process.argv.slice(2), systemEnv()).then((exitCode) => {
  process.exitCode = exitCode;
});
