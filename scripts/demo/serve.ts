import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { FleetHealthReport } from "#proto/fleet-health/report.ts";
import type { LabContext } from "../lab/context.ts";
import { type Deployment, startDeployment } from "../lab/deployment.ts";
import { bridgeTokenOf } from "../lab/operator-api.ts";
import { type PersonName, people, personNames } from "../lab/people.ts";
import { driveHosts, versionMin } from "./drive-hosts.ts";
import { createSpanSenders } from "./send-spans.ts";
import { startWeb } from "./start-web.ts";

const simulatedHosts = 300;
const simulatedSeconds = 20;
const summaryEveryMs = 60_000;
const stepMs = 500;
const linesPerStep = 4;
const stepsPerRotation = 600;

/** Runs the deployment with input until the signal aborts; prints how to reach it, then a summary each minute. */
export const serve = async (context: LabContext, cleanup: AsyncDisposableStack): Promise<void> => {
  const { progress, signal, dir } = context;
  const deployment = await startDeployment(
    {
      env: { SVC_COLLECTOR_MIN_VERSION: versionMin, SVC_INFERENCE_CHAT_MODEL: "mock" },
      rotatedMax: 5,
    },
    context,
    cleanup,
  );
  progress("building the page, unless it is built; starting web and an identity provider");
  const web = await startWeb(deployment, context, { cleanup, usualPort: 3000 });
  await writeTokens(deployment, tokenFile(dir));
  process.stdout.write(introduction(deployment, web, dir));
  progress(
    `${simulatedHosts} simulated hosts enroll; the fleet is complete in ${simulatedSeconds} s`,
  );
  const simulate = async () => {
    const options = { hosts: simulatedHosts, seconds: simulatedSeconds, cleanup };
    const fleet = await driveHosts(deployment, context, options);
    progress(`the fleet is complete: ${web.origin}/fleet`);
    await Promise.all([fleet.keep(signal), printSummaries(deployment, context)]);
  };
  await Promise.all([sendInput(deployment, context), simulate()]);
};

const sendInput = async (
  { otlp, lines }: Deployment,
  { clock, signal }: LabContext,
): Promise<void> => {
  const senders = Object.values(createSpanSenders(otlp));
  try {
    for (let step = 0; ; step++) {
      for (const sender of senders) sender.send(`${step}`);
      await lines.append(
        Array.from({ length: linesPerStep }, (_, index) => `line-${step * linesPerStep + index}`),
      );
      if (step % stepsPerRotation === stepsPerRotation - 1) await lines.rotateByRename();
      await clock.sleep(stepMs, signal);
    }
  } finally {
    await Promise.allSettled(senders.map((sender) => sender.close()));
  }
};

const printSummaries = async (
  deployment: Deployment,
  { dir, clock, signal, progress }: LabContext,
): Promise<void> => {
  for (;;) {
    await clock.sleep(summaryEveryMs, signal);
    await writeTokens(deployment, tokenFile(dir));
    // Core may time out on a machine that wakes up.
    progress(await summaryOf(deployment).catch((error: Error) => error.message));
  }
};

const summaryOf = async ({ api, sql }: Deployment): Promise<string> => {
  const { summary } = await api<FleetHealthReport>(
    "auditor",
    "GET",
    "/v1/collector/health?limit=1",
  );
  const stored = await sql<{ kind: string; count: number }[]>`
    select kind, sum(envelopes)::int as count from ingest_hour group by kind order by kind`;
  const states = Object.entries(summary.by_state).map(([state, count]) => `${count} ${state}`);
  const counts = stored.map(({ kind, count }) => `${count} ${kind}`);
  return [`${summary.enrolled} hosts: ${states.join(", ")}`, ...counts].join(" · ");
};

const tokenFile = (dir: string): string => join(dir, "tokens.sh");

/** Writes an `export` of a bridge token for each person, valid for an hour. */
const writeTokens = async (
  { authTokenSecret, userIds }: Deployment,
  file: string,
): Promise<void> => {
  const lines = personNames.map(
    async (name) =>
      `export ${name.toUpperCase()}=${await bridgeTokenOf(authTokenSecret, name, userIds)}\n`,
  );
  await writeFile(file, (await Promise.all(lines)).join(""), { mode: 0o600 });
};

const introduction = (
  deployment: Deployment,
  { origin }: { origin: string },
  dir: string,
): string => {
  const { httpUrl, ingestEndpoint, edge, pki, otlp, lines } = deployment;
  const person = (name: PersonName, sees: string) =>
    `  ${people[name].email.padEnd(22)} ${people[name].displayName.padEnd(18)} ${name.padEnd(8)} ${sees}`;
  return `
Open  ${origin}/fleet  and choose an account. The demo's identity provider asks for no password.

${person("admin", "everything, and changes it through the API")}
${person("auditor", "the fleet: start as Grace")}
${person("reader", "the home page, and on /fleet the scope that is missing")}

Next
  type  state:stale  or  drift:drifted  into the fleet's search (/), open a row (Enter), export a CSV (e), show all keys (?)
  ask about the fleet (a): a mock model answers with its SQL and a signed receipt
  sign out, and sign in as Edsger, who lacks the audit scope
  send your own spans: OTLP to grpc http://${otlp.shopGrpc} or http http://${otlp.shopHttp}, http://${otlp.cartHttp}
  append lines to ${lines.file}

API   . ${tokenFile(dir)}    # bridge tokens: $ADMIN, $AUDITOR, $READER
      curl -s -H "Authorization: Bearer $AUDITOR" "${httpUrl}/v1/collector/health?state=stale"
      curl -s --cacert ${pki.serverCaFile} -H "Authorization: Bearer $READER" ${edge.url}/v1/whoami

Core is at ${httpUrl}, its TLS edge at ${edge.url}, ingest at ${ingestEndpoint} (mTLS).
Files and logs are in ${dir}. Ctrl-C stops everything and removes them.

`;
};
