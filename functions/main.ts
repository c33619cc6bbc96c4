import { fileURLToPath } from "node:url";
import { quickenImports } from "./node/quick-imports.ts";

quickenImports(fileURLToPath(new URL("../.cache/compile", import.meta.url)));

const { runServer } = await import("./server.ts");
process.exitCode = await runServer(process.argv[2]);
