/**
 * `bun run test-replicas [-- --cores 3] [--pooler session|transaction] [FILES]`: runs end-to-end tests, by default all, with several cores
 * behind a balancer wherever a test starts `svc-server`, and with PgBouncer between them and PostgreSQL. Needs `setpriv` of util-linux. Exit
 * code: that of vitest.
 */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { openTemporaryFolder } from "#scripts/temporary-folder.ts";

/** The tests that start core as a program and ask it as a client does. Not here: those that look into one process, such as its memory. */
const usualFiles = [
  "collector/diagnostics",
  "collector/host-life",
  "core/client",
  "core/restored-database",
  "collector/copied-queue",
  "core/enroll-crash",
  "core/enroll-by-hand",
  "core/wrong-clock",
  "core/scim-process",
  "core/secret-rotation",
  "documents/kubernetes-run",
  "core/chat-process",
  "core/proxies",
].map((name) => `tests/${name}.test.ts`);

const { values, positionals } = parseArgs({
  options: { cores: { type: "string", default: "3" }, pooler: { type: "string" } },
  allowPositionals: true,
});
const isPooler = (mode: string | undefined): mode is "session" | "transaction" | undefined =>
  mode === undefined || mode === "session" || mode === "transaction";
if (!isPooler(values.pooler)) throw new Error("--pooler is session or transaction");
const replicas = { cores: Number(values.cores), pooler: values.pooler ?? null };

await using folder = await openTemporaryFolder("replicas");
const program = join(folder.path, "main.mjs");
const source = JSON.stringify(new URL("./serve-replicas.ts", import.meta.url).href);
await writeFile(
  program,
  `import { serveReplicas } from ${source};\nawait serveReplicas(${JSON.stringify(replicas)});\n`,
);
const files = positionals.length > 0 ? positionals : usualFiles;
const args = ["node_modules/vitest/vitest.mjs", "run", "--no-file-parallelism", ...files];
const vitest = spawn(process.execPath, args, {
  env: { ...process.env, SVC_LAB_CORE: program },
  stdio: "inherit",
});
[process.exitCode = 1] = await once(vitest, "exit");
