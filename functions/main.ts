import { fileURLToPath } from "node:url";
import { setFlagsFromString } from "node:v8";
import { quickenImports } from "./node/quick-imports.ts";

quickenImports(fileURLToPath(new URL("../.cache/compile", import.meta.url)));

const [command, ...args] = process.argv.slice(2);
if (command === "verify-receipts") {
  const { verifyReceiptsCommand } = await import("./verify-receipts.ts");
  process.exitCode = await verifyReceiptsCommand(args);
} else if (command === "verify-completeness") {
  const { verifyCompletenessCommand } = await import("./verify-completeness.ts");
  process.exitCode = await verifyCompletenessCommand(args);
} else if (command === "export") {
  const { exportCommand } = await import("./export-program.ts");
  // V8's young generation stays as large as loading has made it, and garbage is collected once there is as much of it as of what is used: they
  // would reach 64 MB each, and an export is no faster for it.
  setFlagsFromString("--semi-space-growth-factor=1 --heap-growing-percent=100");
  process.exitCode = await exportCommand(args);
} else {
  const { runServer } = await import("./server.ts");
  process.exitCode = await runServer(command, args);
}
