import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { FleetHealthReport } from "../../proto/fleet-health/report.ts";
import { bridgeTokenOf } from "../lab/operator-api.ts";
import type { PersonName } from "../lab/people.ts";
import { people } from "../lab/people.ts";
import { driveHosts, versionMin } from "./drive-hosts.ts";
import { createSpanSender } from "./send-spans.ts";
import { type DemoWeb, startWeb } from "./start-web.ts";
import { type Surroundings, startWorld, type World } from "./world.ts";

const simulatedHosts = 300;
const simulatedSeconds = 20;
const summaryEveryMs = 60_000;
const stepMs = 500;
const linesPerStep = 4;
const stepsPerRotation = 600;

/** Keeps a world up with its inputs flowing until the signal aborts; prints how to reach it, then a line now and then. */
export const stay = async (surroundings: Surroundings, cleanup: AsyncDisposableStack): Promise<void> => {
  const { progress, signal } = surroundings;
  const world = await startWorld(
    { ...surroundings, coreEnv: { SVC_COLLECTOR_MIN_VERSION: versionMin }, renamedMax: 5 },
    cleanup,
  );
  progress("building the page, unless it is built; web and an identity provider");
  const web = await startWeb(world, surroundings, { cleanup, usual: true });
  await writeTokens(world, tokenFile(surroundings.dir));
  process.stdout.write(introduction(world, web, surroundings.dir));
  progress(`${simulatedHosts} simulated hosts enroll; in ${simulatedSeconds} s the fleet is whole`);
  const live = async () => {
    const options = { hosts: simulatedHosts, seconds: simulatedSeconds, cleanup };
    const fleet = await driveHosts(world, surroundings, options);
    progress(`the fleet is whole: ${web.origin}/fleet`);
    await Promise.all([fleet.keep(signal), summarise(world, surroundings)]);
  };
  await Promise.all([flow(world, surroundings), live()]);
};

const flow = async ({ otlp, lines }: World, { clock, signal }: Surroundings): Promise<void> => {
  const senders = [
    createSpanSender("shop", "grpc", otlp.shopGrpc),
    createSpanSender("shop", "http", otlp.shopHttp),
    createSpanSender("cart", "http", otlp.cartHttp),
  ];
  try {
    for (let step = 0; ; step++) {
      for (const sender of senders) sender.send(`${step}`);
      await lines.append(Array.from({ length: linesPerStep }, (_, index) => `line-${step * linesPerStep + index}`));
      if (step % stepsPerRotation === stepsPerRotation - 1) await lines.rotateByRename();
      await clock.sleep(stepMs, signal);
    }
  } finally {
    await Promise.allSettled(senders.map((sender) => sender.close()));
  }
};

const summarise = async (world: World, { dir, clock, signal, progress }: Surroundings): Promise<void> => {
  for (;;) {
    await clock.sleep(summaryEveryMs, signal);
    await writeTokens(world, tokenFile(dir));
    // Core may not answer in time on a machine that wakes up.
    progress(await summaryOf(world).catch((error: Error) => error.message));
  }
};

const summaryOf = async ({ api, sql }: World): Promise<string> => {
  const { summary } = await api<FleetHealthReport>("auditor", "GET", "/v1/collector/health?limit=1");
  const stored = await sql<{ kind: string; count: number }[]>`
    select kind, count(*)::int as count from ingest_envelope group by kind order by kind`;
  const states = Object.entries(summary.by_state).map(([state, count]) => `${count} ${state}`);
  const counts = stored.map(({ kind, count }) => `${count} ${kind}`);
  return [`${summary.enrolled} hosts: ${states.join(", ")}`, ...counts].join(" · ");
};

/** Exports of a bridge token for each person, good for an hour, in a file that shells read. */
const writeTokens = async ({ authTokenSecret, userIds }: World, file: string): Promise<void> => {
  const names = Object.keys(people) as PersonName[];
  const lines = names.map(
    async (name) => `export ${name.toUpperCase()}=${await bridgeTokenOf(authTokenSecret, name, userIds)}\n`,
  );
  await writeFile(file, (await Promise.all(lines)).join(""), { mode: 0o600 });
};

const introduction = ({ core, edge, lab, otlp, lines }: World, { origin }: DemoWeb, dir: string): string => {
  const person = (name: PersonName, sees: string) =>
    `  ${people[name].email.padEnd(22)} ${people[name].displayName.padEnd(18)} ${name.padEnd(8)} ${sees}`;
  return `
Open  ${origin}/fleet  and choose who you are. There are no passwords: the demo's provider asks for an account instead.

${person("admin", "everything, and changes it through the API")}
${person("auditor", "the fleet: begin as Grace")}
${person("reader", "the home page, and on /fleet which scope is missing")}

Next
  type  state:stale  or  drift:drifted  into the fleet's search (/), open a row (Enter), export a CSV (e), and see ? for all keys
  sign out, and in as Edsger, to see what a reader is refused
  send your own spans: OTLP to grpc http://${otlp.shopGrpc} or http http://${otlp.shopHttp}, http://${otlp.cartHttp}
  append lines to ${lines.file}

API   . ${tokenFile(dir)}    # bridge tokens: $ADMIN, $AUDITOR, $READER
      curl -s -H "Authorization: Bearer $AUDITOR" "${core.httpUrl}/v1/collector/health?state=stale"
      curl -s --cacert ${lab.serverCaFile} -H "Authorization: Bearer $READER" ${edge.url}/v1/whoami

Core is at ${core.httpUrl}, its TLS edge at ${edge.url}, ingest at ${core.ingestEndpoint} (mTLS).
Files and logs are in ${dir}. Ctrl-C stops everything and removes them.

`;
};

const tokenFile = (dir: string): string => join(dir, "tokens.sh");
