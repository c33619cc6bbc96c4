import { fileURLToPath } from "node:url";
import { quickenImports } from "../functions/node/quick-imports.ts";

// Loaded into every worker of a test run before anything else: most of a run's time would go into imports.
quickenImports(fileURLToPath(new URL("../.cache/compile", import.meta.url)));
