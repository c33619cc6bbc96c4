/**
 * The main task of the product, once, with real input and two kills; counts by content what reached PostgreSQL.
 *
 * It requires `duplicates: 0`. The collector of a file stores its position in the same transaction as its records, so the check kills that
 * collector. An OTLP exporter repeats an export whose response was lost, and no receiver can distinguish a repetition from a new span, so
 * the check does not kill the collectors that receive OTLP. It kills core under both: core receives the frames again that it had committed
 * and not acknowledged, and its cursor must reject the second copy.
 *
 * Before that: people came from the directory, each signs in through web and gets the scopes of their groups, and the fleet page's own
 * report has every collector, real and simulated, in every state. Grace's question to the chat agent is answered with the count of the
 * tables, and its receipts verify.
 */

import type { FleetHealthRow } from "#proto/fleet-health/columns.ts";
import { beaconSource } from "../fleet-sim/drive/wire.ts";
import type { LabContext } from "../lab/context.ts";
import { type Deployment, startDeployment } from "../lab/deployment.ts";
import { tabulateStored } from "../lab/tabulate-stored.ts";
import { waitUntil } from "../lab/wait-until.ts";
import { checkChat } from "./check-chat.ts";
import { checkOperators } from "./check-operators.ts";
import { checkRevocation } from "./check-revocation.ts";
import { countContent } from "./count-content.ts";
import { driveHosts, versionMin } from "./drive-hosts.ts";
import { createSpanSenders } from "./send-spans.ts";
import { startWeb } from "./start-web.ts";

/** How much of the file was written, and how much of it was stored, when a program was killed. */
interface Kill {
  program: string;
  lines_written: number;
  lines_stored: number;
}

/** Enough for each role of a fleet; the demo itself drives ten times as many. */
const simulatedHosts = 30;
const simulatedSeconds = 5;
const steps = 50;
const stepPauseMs = 100;
/** In each step; 50 steps make 5,000 spans and 20,000 lines. */
const inputs = { shopGrpc: 50, shopHttp: 30, cartHttp: 20, lines: 400 };

/** Runs the check in a deployment of its own. Throws if that cannot start; the report lists what failed. */
export const check = async (context: LabContext, cleanup: AsyncDisposableStack) => {
  const { clock, progress } = context;
  const startedAt = clock.monotonic();
  const env = { SVC_COLLECTOR_MIN_VERSION: versionMin, SVC_INFERENCE_CHAT_MODEL: "mock" };
  const deployment = await startDeployment({ env }, context, cleanup);
  const { operators, chat } = await checkPeople(deployment, context, cleanup);
  const { sent, kills, rotations } = await sendInput(deployment, context);
  progress("waiting until everything is stored");
  const count = await settledCount(deployment, sent, context);
  progress(
    `${count.stored} of ${count.sent} stored, ${count.duplicates} duplicates, ${count.missing} missing`,
  );
  const health = await completeHealth(deployment, context);
  progress("revoking cart");
  const revocation = await checkRevocation(deployment, deployment.collectors.cart, context);
  return {
    ...count,
    sent_by: {
      spans_grpc: inputs.shopGrpc * steps,
      spans_http: (inputs.shopHttp + inputs.cartHttp) * steps,
      lines: inputs.lines * steps,
    },
    kills,
    rotations,
    // Real and simulated collectors in the report that web shows; `health` has the real ones.
    collectors: operators.fleet.rows,
    health,
    revocation,
    operators,
    chat,
    seconds: Number(((clock.monotonic() - startedAt) / 1000).toFixed(1)),
    ok:
      count.duplicates + count.missing + count.foreign === 0 &&
      count.stored === count.sent &&
      health.length === 3 &&
      health.every(isComplete) &&
      [revocation, operators, chat].every(({ ok }) => ok),
  };
};

/** Starts web and simulated hosts; three people sign in and read the fleet, one of them asks about it. */
const checkPeople = async (
  deployment: Deployment,
  context: LabContext,
  cleanup: AsyncDisposableStack,
) => {
  const { progress } = context;
  progress("building the page, unless it is built; starting web and an identity provider");
  const web = await startWeb(deployment, context, { cleanup, usualPort: null });
  progress(`${simulatedHosts} simulated hosts enroll and heartbeat`);
  const fleet = { hosts: simulatedHosts, seconds: simulatedSeconds, cleanup };
  await driveHosts(deployment, context, fleet);
  progress("three people sign in and read the fleet");
  const expected = { ...web, collectors: simulatedHosts + 3 };
  const operators = await checkOperators(deployment, expected, context);
  progress("Grace asks a question; her receipts are verified");
  return { operators, chat: await checkChat(deployment, web, context) };
};

/**
 * Sends spans and writes lines in steps, while collectors and core are killed and files rotate. The events of a step follow its input
 * at once, so that a kill always finds something that is not stored yet.
 */
const sendInput = async (deployment: Deployment, context: LabContext) => {
  const { clock, signal, progress } = context;
  const { lines, otlp, collectors } = deployment;
  const sent = new Set<string>();
  const kills: Kill[] = [];
  const rotations: string[] = [];
  let linesWritten = 0;
  const spans = createSpanSenders(otlp);
  const names = ["shopGrpc", "shopHttp", "cartHttp"] as const;
  const programs = { core: deployment, web: collectors.web };
  const rotate = async (how: string, rotation: () => Promise<void>) => {
    progress(`rotation: ${how}`);
    await rotation();
    rotations.push(how);
  };
  const kill = async (program: keyof typeof programs) => {
    progress(`SIGKILL: ${program}`);
    await programs[program].kill();
    const stored = await countLines(deployment);
    kills.push({ program, lines_written: linesWritten, lines_stored: stored });
  };
  const restart = (program: keyof typeof programs) => {
    progress(`starting ${program} again`);
    programs[program].start();
  };
  const events: Record<number, () => unknown> = {
    8: () => rotate("rename", lines.rotateByRename),
    14: () => kill("web"),
    17: () => rotate("rename while the collector is dead", lines.rotateByRename),
    20: () => restart("web"),
    28: () => kill("core"),
    32: () => rotate("rename while core is dead", lines.rotateByRename),
    36: () => restart("core"),
    // Such a rotation loses what no reader has read yet, so it waits until everything is stored.
    43: async () => {
      const areStored = async () => (await countLines(deployment)) === linesWritten || undefined;
      await waitUntil({ what: "every line so far is stored", ...context }, areStored);
      await rotate("copy and truncate", lines.rotateByCopy);
    },
  };
  progress(`sending spans with the OpenTelemetry SDK, writing lines to ${lines.file}`);
  const ids = (prefix: string, step: number, count: number): string[] =>
    Array.from({ length: count }, (_, index) => `${prefix}-${step * count + index}`);
  for (let step = 0; step < steps; step++) {
    for (const name of names)
      for (const id of ids(name, step, inputs[name])) {
        spans[name].send(id);
        sent.add(id);
      }
    const written = ids("line", step, inputs.lines);
    await lines.append(written);
    linesWritten += written.length;
    for (const id of written) sent.add(id);
    await events[step]?.();
    await clock.sleep(stepPauseMs, signal);
  }
  await Promise.all(names.map((name) => spans[name].close()));
  await deployment.ready();
  return { sent, kills, rotations };
};

const countLines = async ({ sql }: Deployment): Promise<number> => {
  await tabulateStored(sql);
  const [row] = await sql<{ count: number }[]>`
    select count(*)::int as count from stored_envelope where kind = 'log_line' and source <> ${beaconSource}`;
  return row?.count ?? 0;
};

/** Counts once nothing is missing, at the latest after a minute; then again a second later, to find duplicates. */
const settledCount = async (
  { sql }: Deployment,
  sent: ReadonlySet<string>,
  context: LabContext,
) => {
  const isComplete = async () => (await countContent(sql, sent)).missing === 0 || undefined;
  await waitUntil(
    { what: "everything", ...context, timeoutMs: 60_000, everyMs: 300 },
    isComplete,
  ).catch(() => context.signal.throwIfAborted());
  await context.clock.sleep(1_000, context.signal);
  return countContent(sql, sent);
};

const isComplete = ({ last_heartbeat_at, last_envelope_at }: FleetHealthRow): boolean =>
  last_heartbeat_at !== null && last_envelope_at !== null;

const completeHealth = async (
  { readHealth }: Deployment,
  context: LabContext,
): Promise<FleetHealthRow[]> => {
  const what = "every collector has sent a heartbeat and forwarded";
  const areComplete = async () => (await readHealth()).every(isComplete) || undefined;
  await waitUntil({ what, ...context, everyMs: 300 }, areComplete).catch(() =>
    context.signal.throwIfAborted(),
  );
  return readHealth();
};
