/**
 * `bun run floods -- [--seconds 10] [--only NAME]`: attacks the ingest listener of a real core, its sockets of agents and the HTTP
 * listeners of core and web, one attack after another, each on new processes, beside well-behaved clients: a collector that commits a frame every
 * 10 ms and, at the HTTP listeners, a person who reads from core through web, or, beside attacks by agents, other agents. Prints one JSON
 * object with the peak RSS, the p99 of the clients and the
 * delay of the event loop beside each attack and alone. Exit code 1 when an RSS exceeds 350 MB, a p99 twice the one alone (and 50 ms; beside
 * messages, agents and at the HTTP listeners 250 ms, of the event loop 100 ms), a client is not served, an error is not named, or a program ends.
 */
import { readCommandOptions } from "#scripts/read-command-options.ts";
import { agentAttacks } from "./agent-attacks.ts";
import { runAgentFloods } from "./agent-floods.ts";
import { attacks } from "./attacks.ts";
import { runFloods } from "./floods.ts";
import { httpFloodNames, runHttpFloods } from "./http-floods.ts";
import { messageAttacks } from "./message-attacks.ts";

const values = readCommandOptions({ seconds: 10, only: null });
const seconds = Math.min(values.seconds, 60);
const chosen = (names: readonly string[]) =>
  values.only === undefined ? names : names.filter((name) => name === values.only);
const ingest = chosen([...Object.keys(attacks), ...Object.keys(messageAttacks)]);
const http = chosen(httpFloodNames);
const agents = chosen(Object.keys(agentAttacks));
const report = {
  ingest: ingest.length === 0 ? null : await runFloods({ seconds, names: ingest }),
  http: http.length === 0 ? null : await runHttpFloods({ seconds, names: http }),
  agents: agents.length === 0 ? null : await runAgentFloods({ seconds, names: agents }),
};
const parts = Object.values(report).filter((part) => part !== null);
const ok = parts.every((part) => part.ok) && parts.length > 0;
process.stdout.write(`${JSON.stringify({ ok, ...report }, null, 2)}\n`);
process.exit(ok ? 0 : 1);
