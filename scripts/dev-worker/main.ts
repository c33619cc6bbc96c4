/**
 * `bun run dev:worker [--port 8787]`: runs core in workerd by `wrangler dev`, with an embedded PostgreSQL, three people and a CA, which
 * end with it. Needs no network. Prints a request for each person, with a bridge token for an hour.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createTestCa } from "../lab/ca/test-pki.ts";
import { coreEnvironment } from "../lab/core-environment.ts";
import { bridgeTokenOf } from "../lab/operator-api.ts";
import { personNames, seedPeople } from "../lab/people.ts";
import { openEmbeddedDatabase } from "../postgres/embedded-database.ts";
import { readCommandOptions } from "../read-command-options.ts";
import { openTemporaryFolder } from "../temporary-folder.ts";

const { port } = readCommandOptions({ port: "8787" });

await using folder = await openTemporaryFolder("dev-worker");
await using database = await openEmbeddedDatabase({ tcp: true });
await seedPeople(database.db, Date.now());
const ca = await createTestCa();
const variables = {
  ...coreEnvironment(database.tcpUrl()),
  SVC_TRUST_LOOPBACK_OPS: "true",
  SVC_ENROLLMENT_CA_CERT: ca.pem,
  SVC_ENROLLMENT_CA_KEY: ca.key.pem,
};
const envFile = join(folder.path, "variables");
const lines = Object.entries(variables).map(([name, value]) => `${name}="${value.trim()}"`);
await writeFile(envFile, lines.join("\n"), { mode: 0o600 });

console.log("\nCore in workerd. Try, while it runs:\n");
for (const name of personNames) {
  const token = await bridgeTokenOf(variables.SVC_AUTH_TOKEN_SECRET, name);
  console.log(
    `# ${name}\ncurl -H "Authorization: Bearer ${token}" http://127.0.0.1:${port}/v1/whoami\n`,
  );
}

const wrangler = spawn(
  process.execPath,
  [
    "node_modules/wrangler/bin/wrangler.js",
    "dev",
    "--ip=127.0.0.1",
    `--port=${port}`,
    `--env-file=${envFile}`,
  ],
  {
    stdio: "inherit",
    env: { ...process.env, WRANGLER_SEND_METRICS: "false", CLOUDFLARE_CF_FETCH_ENABLED: "false" },
  },
);
// Ctrl-C reaches both processes; wrangler ends first, then the database.
for (const signal of ["SIGINT", "SIGTERM"] as const)
  process.on(signal, () => wrangler.kill(signal));
const [code] = await once(wrangler, "exit");
process.exitCode = code ?? 0;
