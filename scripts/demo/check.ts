/**
 * The main job, once: real input, two kills, and a count of what arrived by its content.
 *
 * Why `duplicates: 0` is an honest claim. A file has no sender that could repeat a line, and its collector keeps what it has read
 * in the same transaction as what it has stored: so that one is killed. An OTLP exporter repeats an export whose answer was lost,
 * and no receiver can tell a repetition from a new span: so the collectors that take OTLP are not killed, and their exporters see
 * every answer. Core is killed under both: what it had committed without having acknowledged it is sent to it again, and its
 * cursor must keep the second copy out.
 *
 * Before that: people came from the directory, each signs in through web and may do what their groups say, and the page's own report
 * holds every collector, real and simulated, in all nine states.
 */

import type { FleetHealthRow } from "../../proto/fleet-health/row.ts";
import { beaconSource } from "../fleet-sim/drive/wire.ts";
import type { DemoCollector } from "../lab/enroll-collector.ts";
import { waitUntil } from "../lab/wait-until.ts";
import { checkOperators, type OperatorsReport } from "./check-operators.ts";
import { type ContentCount, countContent } from "./count-content.ts";
import { driveHosts, versionMin } from "./drive-hosts.ts";
import { readHealth } from "./health.ts";
import { type RevocationReport, revokeHost } from "./revoke-host.ts";
import { createSpanSender } from "./send-spans.ts";
import { startWeb } from "./start-web.ts";
import { type Surroundings, startWorld, type World } from "./world.ts";

/** What `demo --check` prints. */
export interface CheckReport extends ContentCount {
  sent_by: { spans_grpc: number; spans_http: number; lines: number };
  kills: readonly Kill[];
  rotations: readonly string[];
  /** Real ones and simulated ones in the report that web shows. */
  collectors: number;
  /** The real ones. */
  health: readonly FleetHealthRow[];
  revocation: RevocationReport;
  operators: OperatorsReport;
  seconds: number;
  ok: boolean;
}

/** When a program was killed, in terms of the file: what was written by then, and what had reached PostgreSQL. */
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

/** Runs the check in a world of its own. Throws if the world cannot be built; what does not hold is in the report. */
export const check = async (surroundings: Surroundings, cleanup: AsyncDisposableStack): Promise<CheckReport> => {
  const { clock, progress } = surroundings;
  const startedAt = clock.monotonic();
  const world = await startWorld({ ...surroundings, coreEnv: { SVC_COLLECTOR_MIN_VERSION: versionMin } }, cleanup);
  progress("building the page, unless it is built; web and an identity provider");
  const web = await startWeb(world, surroundings, { cleanup, usual: false });
  progress(`${simulatedHosts} simulated hosts enroll and heartbeat`);
  await driveHosts(world, surroundings, { hosts: simulatedHosts, seconds: simulatedSeconds, cleanup });
  progress("three people sign in and look at the fleet");
  const operators = await checkOperators(world, { ...web, collectors: simulatedHosts + 3 });
  const { sent, kills, rotations } = await feed(world, surroundings);
  progress("waiting until everything has arrived");
  const count = await settledCount(world, sent, surroundings);
  progress(`${count.stored} of ${count.sent} stored, ${count.duplicates} duplicates, ${count.missing} missing`);
  const health = await completeHealth(world, surroundings);
  progress("revoking cart");
  const revocation = await revokeHost(world, world.collectors.cart, surroundings);
  return {
    ...count,
    sent_by: {
      spans_grpc: inputs.shopGrpc * steps,
      spans_http: (inputs.shopHttp + inputs.cartHttp) * steps,
      lines: inputs.lines * steps,
    },
    kills,
    rotations,
    collectors: operators.fleet.rows,
    health,
    revocation,
    operators,
    seconds: Number(((clock.monotonic() - startedAt) / 1000).toFixed(1)),
    ok:
      count.duplicates === 0 &&
      count.missing === 0 &&
      count.foreign === 0 &&
      count.stored === count.sent &&
      health.length === 3 &&
      health.every(isComplete) &&
      revocation.ok &&
      operators.ok,
  };
};

interface Fed {
  sent: Set<string>;
  kills: Kill[];
  rotations: string[];
}

/**
 * Sends spans and writes lines in steps, while collectors and core are killed and files rotate under them. What happens in a step
 * happens right after its input, so that a kill always finds something that is not stored yet.
 */
const feed = async (world: World, { clock, signal, progress }: Surroundings): Promise<Fed> => {
  const { core, lines, otlp } = world;
  const { web } = world.collectors;
  const fed: Fed = { sent: new Set(), kills: [], rotations: [] };
  let linesWritten = 0;
  const senders = [
    { sender: createSpanSender("shop", "grpc", otlp.shopGrpc), prefix: "shop-grpc", count: inputs.shopGrpc },
    { sender: createSpanSender("shop", "http", otlp.shopHttp), prefix: "shop-http", count: inputs.shopHttp },
    { sender: createSpanSender("cart", "http", otlp.cartHttp), prefix: "cart-http", count: inputs.cartHttp },
  ];
  const rotate = async (how: string, rotation: () => Promise<void>) => {
    progress(`rotation: ${how}`);
    await rotation();
    fed.rotations.push(how);
  };
  const kill = async (program: string, target: Pick<DemoCollector, "kill">) => {
    progress(`SIGKILL: ${program}`);
    await target.kill();
    fed.kills.push({ program, lines_written: linesWritten, lines_stored: await countLines(world) });
  };
  const start = (name: string, target: Pick<DemoCollector, "start">) => {
    progress(`starting ${name} again`);
    target.start();
  };
  const events: Record<number, () => unknown> = {
    8: () => rotate("rename", lines.rotateByRename),
    14: () => kill("web", web),
    17: () => rotate("rename while the collector is dead", lines.rotateByRename),
    20: () => start("web", web),
    28: () => kill("core", core),
    32: () => rotate("rename while core is dead", lines.rotateByRename),
    36: () => start("core", core),
    // This kind of rotation takes from every reader what it has not read yet, so it happens when all is read.
    43: async () => {
      await waitUntil({ what: "every line so far is stored", clock, signal }, async () => {
        return (await countLines(world)) === linesWritten || undefined;
      });
      await rotate("copy and truncate", lines.rotateByCopy);
    },
  };
  progress(`sending spans with the OpenTelemetry SDK, writing lines to ${lines.file}`);
  const ids = (prefix: string, step: number, count: number): string[] =>
    Array.from({ length: count }, (_, index) => `${prefix}-${step * count + index}`);
  for (let step = 0; step < steps; step++) {
    for (const { sender, prefix, count } of senders)
      for (const id of ids(prefix, step, count)) {
        sender.send(id);
        fed.sent.add(id);
      }
    const written = ids("line", step, inputs.lines);
    await lines.append(written);
    linesWritten += written.length;
    for (const id of written) fed.sent.add(id);
    await events[step]?.();
    await clock.sleep(stepPauseMs, signal);
  }
  await Promise.all(senders.map(({ sender }) => sender.close()));
  await core.ready();
  return fed;
};

const countLines = async ({ sql }: World): Promise<number> => {
  const [row] = await sql<{ count: number }[]>`
    select count(*)::int as count from ingest_envelope where kind = 'log_line' and source <> ${beaconSource}`;
  return row?.count ?? 0;
};

/** The count once nothing is missing, or as it stands after a minute; then again a second later, for what comes too often. */
const settledCount = async ({ sql }: World, sent: ReadonlySet<string>, { clock, signal }: Surroundings) => {
  const everything = async () => {
    const count = await countContent(sql, sent);
    return count.missing === 0 ? count : undefined;
  };
  await waitUntil({ what: "everything", clock, signal, timeoutMs: 60_000, everyMs: 300 }, everything).catch((error) => {
    signal.throwIfAborted();
    return error;
  });
  await clock.sleep(1_000, signal);
  return countContent(sql, sent);
};

const isComplete = ({ last_heartbeat_at, last_envelope_at }: FleetHealthRow): boolean =>
  last_heartbeat_at !== null && last_envelope_at !== null;

const completeHealth = async ({ api }: World, { clock, signal }: Surroundings): Promise<FleetHealthRow[]> => {
  const what = "every collector has sent a heartbeat and forwarded";
  await waitUntil({ what, clock, signal, everyMs: 300 }, async () =>
    (await readHealth(api)).every(isComplete) ? true : undefined,
  ).catch(() => signal.throwIfAborted());
  return readHealth(api);
};
