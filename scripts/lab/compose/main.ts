/**
 * The lab of compose.lab.yaml, in an image of its own: `secrets`, `directory`, `identity-provider`, `edge`, `enroll` and `check PORT`.
 * Certificates and secrets are in /lab, which the services share; people are those of the demo. Not part of any published image.
 */
import { existsSync } from "node:fs";
import { isListening } from "#scripts/ports.ts";
import { enroll } from "./enroll.ts";
import { makeSecrets } from "./make-secrets.ts";
import { serveDirectory, serveEdge, serveIdentityProvider } from "./serve.ts";

/** Exits with 0 if something listens on a port of this container. */
const check = async (port: string): Promise<void> => {
  if (!(await isListening(`127.0.0.1:${port}`))) throw new Error(`nothing listens on ${port}`);
};

const [command = "", argument = ""] = process.argv.slice(2);
const commands: Readonly<Record<string, () => Promise<void>>> = {
  secrets: makeSecrets,
  directory: serveDirectory,
  "identity-provider": serveIdentityProvider,
  edge: serveEdge,
  enroll: async () => (existsSync("/etc/svc-collector/collector.yaml") ? undefined : enroll()),
  check: () => check(argument),
};
const run = commands[command];
if (run === undefined) {
  console.error(`usage: main.mjs ${Object.keys(commands).join("|")}`);
  process.exitCode = 2;
} else {
  for (const signal of ["SIGTERM", "SIGINT"] as const) process.once(signal, () => process.exit(0));
  await run().catch((error: Error) => {
    console.error(`${command}: ${error.message}`);
    process.exitCode = 1;
  });
}
