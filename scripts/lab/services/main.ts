/**
 * What a first day needs beside core and web, for a lab on loopback: `bun run lab-services -- --out DIR --people FILE`. Serves an empty
 * PostgreSQL, an identity provider without passwords for the people of a directory file, and a TLS edge, and writes `DIR/core.env` and
 * `DIR/web.env`. Runs until Ctrl-C, which deletes the database.
 */
import { once } from "node:events";
import { readCommandOptions } from "#scripts/read-command-options.ts";
import { startLabServices } from "./start-lab-services.ts";

const { out: dir, people: peopleFile } = readCommandOptions({ out: null, people: null });
if (dir === undefined || peopleFile === undefined) {
  console.error("usage: bun run lab-services -- --out DIR --people FILE");
  process.exit(2);
}
const stopped = Promise.race([once(process, "SIGINT"), once(process, "SIGTERM")]);
const services = await startLabServices({ dir, peopleFile });
console.log(JSON.stringify({ msg: "ready", core_env: services.coreEnv, web_env: services.webEnv }));
await stopped;
await services.close();
