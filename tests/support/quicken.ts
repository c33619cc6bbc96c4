import { fileURLToPath } from "node:url";
import { quickenImports } from "#functions/node/quick-imports.ts";

// Loaded first into every worker of a test run, as imports would take most of its time.
quickenImports(fileURLToPath(new URL("../../.cache/compile", import.meta.url)));
