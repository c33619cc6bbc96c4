import { fileURLToPath } from "node:url";
import { quickenImports } from "#functions/node/quick-imports.ts";

quickenImports(fileURLToPath(new URL("../../.cache/compile", import.meta.url)));

const { runWeb } = await import("./server.ts");
process.exitCode = await runWeb(process.argv[2]);
