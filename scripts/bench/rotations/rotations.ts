import { appendFileSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { bundlePrograms } from "#scripts/bundle/bundle-programs.ts";
import { findProgram } from "#scripts/images/container-tools.ts";
import { readCommandOptions } from "#scripts/read-command-options.ts";
import { withFolder } from "../collector/collector-run.ts";
import { buildPeer, findGo } from "../peers/programs.ts";
import type { Bench } from "../support/bench.ts";
import { type RunningProgram, startProgram } from "../support/processes.ts";
import { type Follower, followWithOurs, followWithPeer, peers } from "./followers.ts";
import { histories, type RotationHistory, type Scene } from "./histories.ts";
import { openLineSink } from "./line-sink.ts";
import { type LineOutcome, readOutcome, tableOf } from "./outcome.ts";

const ours = "svc-collector";

/**
 * Lets programs that follow a log live through the same rotations, and prints how many lines each lost or sent twice, and whether it logged
 * a warning that names the log. otelcol is built where there is Go; Fluent Bit and rsyslog are those of the machine. `--only` selects
 * histories by a part of their names. The figure is the number of lines that ours lost untold or sent twice.
 */
export const rotationsBench: Bench = async (args) => {
  const { only } = readCommandOptions({ only: "" }, args);
  await bundlePrograms(["svc-collector"]);
  const followers = { [ours]: followWithOurs, ...(await findPeers()) };
  const outcomes: Record<string, Record<string, LineOutcome>> = {};
  for (const history of histories.filter(({ name }) => name.includes(only))) {
    const row: Record<string, LineOutcome> = {};
    outcomes[history.name] = row;
    for (const [name, follower] of Object.entries(followers)) {
      row[name] = await withFolder((folder) => live(history, follower, folder));
      console.error(JSON.stringify({ history: history.name, name, ...row[name] }));
    }
  }
  console.error(tableOf(outcomes));
  const figure = Object.values(outcomes)
    .flatMap((row) => row[ours] ?? [])
    .reduce((sum, { lost, doubled, told }) => sum + doubled + (told.length === 0 ? lost : 0), 0);
  return {
    figure,
    unit: "lines lost untold or sent twice",
    floor: 0,
    ratio: 0,
    goal: 0,
    ok: figure === 0,
    details: { outcomes },
  };
};

/** Returns how the peers of this machine follow a log. */
const findPeers = async (): Promise<Record<string, Follower>> => {
  const go = findGo();
  const built = go && (await buildPeer("otelcol", go));
  const found: Record<string, Follower> = {};
  for (const [name, peer] of Object.entries(peers)) {
    const program = name.startsWith("otelcol") ? built : findProgram(name);
    if (program === undefined) console.error(`there is no ${name} on this machine`);
    else found[name] = followWithPeer(program, peer);
  }
  return found;
};

/** No more arrives when nothing has for this long. */
const quietMs = 15_000;
/** How long lines may still arrive a second time when all have arrived. */
const doubledMs = 3_000;
const pollMs = 100;
const filler = "x".repeat(150);

/** Lets a program live through a history. */
const live = async (
  { pattern = "app.log", run }: RotationHistory,
  follower: Follower,
  folder: string,
): Promise<LineOutcome> => {
  await using sink = await openLineSink();
  const { arrivals } = sink;
  const logs = join(folder, "logs");
  await mkdir(logs);
  const output: string[] = [];
  let written = 0;
  let program: RunningProgram | undefined;
  const start = await follower({
    folder: join(folder, "program"),
    pattern: join(logs, pattern),
    sink,
  });
  const log = (suffix = "") => join(logs, `app.log${suffix}`);
  const nextLine = () =>
    `2026-11-29T12:00:00Z INFO line ${String(++written).padStart(7, "0")} ${filler}`;
  const arrived = async (lines = written) => {
    let size = -1;
    for (let quiet = 0; arrivals.size < lines && quiet < quietMs; await sleep(pollMs)) {
      quiet = arrivals.size === size ? quiet + pollMs : 0;
      size = arrivals.size;
    }
  };
  const scene: Scene = {
    log,
    write: (lines, suffix) =>
      appendFileSync(log(suffix), Array.from({ length: lines }, () => `${nextLine()}\n`).join("")),
    writePartial: () => appendFileSync(log(), nextLine()),
    start: async () => {
      program = await startProgram(start, (line) => output.push(line));
    },
    stop: async (signal) => program?.stop(signal),
    setRefusing: sink.setRefusing,
    arrived,
  };
  try {
    await run(scene);
    await arrived();
    await sleep(doubledMs);
  } finally {
    await program?.stop("SIGKILL");
  }
  return readOutcome(written, arrivals, output, logs);
};
