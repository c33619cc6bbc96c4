#!/usr/bin/env node
import { enableCompileCache } from "node:module";
import { fileURLToPath } from "node:url";

/* Not Node's default under the system's temporary directory: other users could plant code there. Does nothing where it may not write. */
enableCompileCache(fileURLToPath(new URL("../.cache/compile", import.meta.url)));

const [{ runAdmin }, { systemTerminal }] = await Promise.all([
  import("./run-admin.ts"),
  import("./terminal/terminal.ts"),
]);
process.exitCode = await runAdmin(process.argv.slice(2), systemTerminal());
