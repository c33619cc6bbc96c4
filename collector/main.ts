import { enableCompileCache } from "node:module";
import { fileURLToPath } from "node:url";
import { reserveThreads } from "./files/mounts.ts";

reserveThreads(process.env);

/*
 * Halves the start time if this directory is writable, and does nothing otherwise. Not Node's default under the system's temporary
 * directory: other users could plant code there.
 */
enableCompileCache(fileURLToPath(new URL("../.cache/compile", import.meta.url)));

const [{ runCommandLine }, { systemEnv }] = await Promise.all([
  import("./commands/command-line.ts"),
  import("./env.ts"),
]);
process.exitCode = await runCommandLine(process.argv.slice(2), systemEnv());
// Lines of the log that nothing reads would keep the process; the output of other commands is waited for.
setTimeout(() => {
  // A call into a file system that does not answer never ends, and `process.exit` would wait for it.
  const isHung = process.getActiveResourcesInfo().some((name) => name.startsWith("FSReq"));
  if (isHung) process.kill(process.pid, "SIGKILL");
  else if (process.argv[2] === "run") process.exit();
}, 1_000).unref();
