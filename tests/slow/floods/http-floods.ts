/** Attacks real HTTP listeners of core and web with floods that need no credentials, beside well-behaved clients. */
import { Worker } from "node:worker_threads";
import { type Behaved, type Deployment, prepareDeployments } from "./deployment.ts";
import { p99Of } from "./floods.ts";
import { type AttackedProgram, httpAttacks } from "./http-attacks.ts";

const peakMbMax = 350;
/** Beside an attack a client, or the event loop, may take twice as long as without one, and always this long. */
const delayMsMax = { p99_ms: 250, ack_p99_ms: 250, event_loop_p99_ms: 100 };
const worker = new URL("./attacker.ts", import.meta.url);

/** What one attack did. */
export interface HttpFloodResult {
  /** The connections that it opened. */
  opened: number;
  core_peak_mb: number;
  web_peak_mb: number;
  /** Of a person's requests through web to core. */
  p99_ms: number;
  /** The time from a collector's frame to its ack. */
  ack_p99_ms: number;
  /** The delay of the event loop of the attacked program. */
  event_loop_p99_ms: number;
  event_loop_max_ms: number;
  /** The requests of the person. */
  requests: number;
  /** The requests and frames that were not served. */
  faults: number;
  /** Whether the memory, the three p99 and the faults meet their goals, and both programs still run. */
  ok: boolean;
}

/** All attacks, by the name of their result. */
export const httpFloodNames = Object.keys(httpAttacks).flatMap((name) => [
  `core: ${name}`,
  `web: ${name}`,
]);

/** Runs attacks of so many seconds each, each on a new core and web, after a time without one. */
export const runHttpFloods = async ({
  seconds,
  names = httpFloodNames,
  warmUpMs = 2_000,
}: {
  seconds: number;
  names?: readonly string[];
  warmUpMs?: number;
}) => {
  const deployments = await prepareDeployments();
  const results: Record<string, HttpFloodResult> = {};
  let deployment: Deployment | undefined;
  try {
    for (const name of ["alone", ...names]) {
      await deployment?.close();
      deployment = await deployments.start();
      // Code that has not run yet is slow, whoever calls it.
      await deployment.behave(warmUpMs);
      const [at, attack] = name.split(": ") as [AttackedProgram, string | undefined];
      deployment.resetDelays();
      const attacker =
        attack === undefined
          ? undefined
          : attackWith(attack, { at, seconds, port: deployment.ports[at] });
      const behaved = await deployment.behave(seconds * 1_000);
      const figures = figuresOf(deployment, at === "web" ? "web" : "core", behaved);
      const ok = deployment.isRunning() && meetsGoals(figures, results.alone);
      results[name] = { opened: (await attacker?.opened) ?? 0, ...figures, ok };
      const [fault] = behaved.faults;
      process.stderr.write(
        `${name}: ${JSON.stringify(results[name])}${fault === undefined ? "" : ` ${fault}`}\n`,
      );
      await attacker?.end();
    }
  } finally {
    await deployment?.close();
    await deployments.close();
  }
  return { ok: Object.values(results).every(({ ok }) => ok), seconds, results };
};

/** Runs an attack in a thread of its own. */
const attackWith = (
  name: string,
  target: { at: AttackedProgram; seconds: number; port: number },
) => {
  const thread = new Worker(worker, { workerData: { name, ...target } });
  const opened = new Promise<number>((resolve) => {
    thread.once("message", (report: { opened: number }) => resolve(report.opened));
    thread.once("error", (error) => {
      process.stderr.write(`${name}: the attacker ended: ${error}\n`);
      resolve(-1);
    });
  });
  return { opened, end: () => thread.terminate() };
};

const figuresOf = (
  deployment: Deployment,
  attacked: AttackedProgram,
  { requests, acks, faults }: Behaved,
) => {
  const { p99_ms, max_ms } = deployment.delayOf(attacked);
  return {
    core_peak_mb: deployment.peakMbOf("core"),
    web_peak_mb: deployment.peakMbOf("web"),
    p99_ms: p99Of(requests),
    ack_p99_ms: p99Of(acks),
    event_loop_p99_ms: p99_ms,
    event_loop_max_ms: max_ms,
    requests: requests.length,
    faults: faults.length,
  };
};

const meetsGoals = (figures: Omit<HttpFloodResult, "opened" | "ok">, alone = figures) =>
  figures.faults === 0 &&
  Math.max(figures.core_peak_mb, figures.web_peak_mb) <= peakMbMax &&
  (["p99_ms", "ack_p99_ms", "event_loop_p99_ms"] as const).every(
    (name) => figures[name] <= Math.max(2 * alone[name], delayMsMax[name]),
  );
