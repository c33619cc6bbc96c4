import {
  type CreateRolloutData,
  createRollout,
  type GetRolloutResponse,
  getRollout,
} from "#client/index.ts";
import { describeComparison } from "#proto/fleet-health/comparison.ts";
import { writeDuration } from "#proto/fleet-health/query-language/quantities.ts";
import { endedStates, rolloutConditions } from "#proto/rollout/vocabulary.ts";
import { confirm } from "../terminal/confirm.ts";
import { connect } from "../terminal/connect.ts";
import { type AdminExitCode, exitCodes } from "../terminal/exit-codes.ts";
import {
  type Column,
  createRowPrinter,
  type OutputOptions,
  printRecord,
  printRows,
  withoutControls,
} from "../terminal/output.ts";
import { repeat } from "../terminal/repeat.ts";
import type { Terminal } from "../terminal/terminal.ts";
import type { Action, GlobalOptions } from "./command.ts";
import { defaultWaves, type Wave, waveColumn } from "./declare-rollouts.ts";
import { checkSelection } from "./fleet.ts";
import { resolveId } from "./names.ts";
import { describePreview, previewOf } from "./preview.ts";

type Rollout = GetRolloutResponse;
type Body = CreateRolloutData["body"];

interface CreateOptions {
  wave?: Wave[];
  maxFailed: number;
  condition?: NonNullable<Body["gate"]>["states"];
  onBreach: "pause" | "roll-back";
  gate?: "worse-than-control";
  all?: boolean;
  watch?: boolean;
  interval: number;
}

/** `svc-admin rollouts create`: shows the preview and the waves, asks, and starts. */
export const createRolloutAction: Action<CreateOptions> = async (
  terminal,
  options,
  config = "",
  ...words
) => {
  checkSelection(terminal, words, options);
  const client = connect(terminal, options);
  const configId = await resolveId(client, "config", config);
  const preview = await previewOf(terminal, client, { configId, words });
  const {
    wave: waves = [...defaultWaves],
    maxFailed,
    condition = [...rolloutConditions],
    onBreach,
    gate,
  } = options;
  const reaction = onBreach === "pause" ? "pauses" : "rolls back";
  const plan = [
    describePreview(preview),
    `  waves: ${waves.map(describeWave).join(", ")}`,
    `  ${reaction} when more than ${maxFailed} % of a wave are ${condition.join(", ")}`,
    ...(gate === undefined
      ? []
      : [`  ${reaction} when a wave turns out worse than unchanged hosts`]),
  ];
  await confirm(terminal, options, plan.join("\n"));
  const body: Body = {
    config_id: configId,
    ...(options.all === true ? { all: true } : { filter: words.join(" ") }),
    waves,
    gate: {
      max_failed_percent: maxFailed,
      states: condition,
      worse_than_control: gate !== undefined,
    },
    on_breach: onBreach === "pause" ? "pause" : "roll_back",
  };
  const { data: rollout } = await createRollout<true>({ client, body });
  if (options.watch === true) {
    terminal.err.write(`Rollout ${rollout.id}\n`);
    return follow(terminal, options, rollout.id);
  }
  await printRollout(terminal, options, rollout);
};

const describeWave = (wave: Wave) => {
  const size =
    "percent" in wave
      ? `${wave.percent} %`
      : `${wave.count} ${wave.count === 1 ? "host" : "hosts"}`;
  return wave.soak_seconds === 0 ? size : `${size} then ${writeDuration(wave.soak_seconds)}`;
};

const describeReason = ({ code, detail }: NonNullable<Rollout["reason"]>): string =>
  detail === null ? code : `${code}: ${detail}`;

/** Prints a rollout: in a table also its waves, their comparisons and the evidence of a breach. */
export const printRollout = async (
  terminal: Terminal,
  options: OutputOptions,
  rollout: Rollout,
): Promise<void> => {
  if (options.format !== "table") return printRecord(terminal, options, rollout);
  const { waves, gate, config, reason, breach, outages = [], ...record } = rollout;
  await printRecord(terminal, options, {
    ...record,
    config: `${config.id} ${config.config_hash.slice(0, 12)}${config.name === null ? "" : ` ${config.name}`}`,
    gate: `${gate.max_failed_percent} % ${gate.states.join(", ")}${gate.worse_than_control ? ", worse than control" : ""}`,
    reason: reason === null ? "" : describeReason(reason),
    outages: outages
      .map(({ began_at, ended_at }) => `${began_at} to ${ended_at ?? "now"}`)
      .join(", "),
  });
  terminal.out.write("\n");
  const columns = [
    "number",
    "targets",
    "assigned",
    "applied",
    "failed",
    "reverted",
    "reverted_failed",
    "skipped",
    "soak_seconds",
    "started_at",
    "completed_at",
  ] as const;
  await printRows(terminal, options, columns, waves);
  for (const { number, comparison } of waves)
    if (comparison !== undefined)
      terminal.out.write(`wave ${number}: ${describeComparison(comparison)}\n`);
  if (breach === null) return;
  terminal.out.write("\n");
  const evidence = ["identity", "condition", "began_at", "detail"] as const;
  await printRows(terminal, options, evidence, breach.evidence);
};

/** `svc-admin rollouts watch`: a line for each change, until the rollout ends. */
export const watchRolloutAction: Action<{ interval: number; stopAtPause?: boolean }> = async (
  terminal,
  options,
  id = "",
) => follow(terminal, options, await resolveId(connect(terminal, options), "rollout", id));

const changeColumns: readonly Column<Rollout>[] = [
  "updated_at as time",
  "state",
  waveColumn,
  "targets",
  "assigned",
  "applied",
  "failed",
  "skipped",
  "reverted",
  "reverted_failed",
];

const follow = async (
  terminal: Terminal,
  options: GlobalOptions & { interval: number; stopAtPause?: boolean },
  id: string,
): Promise<AdminExitCode> => {
  const print = createRowPrinter(terminal, options, changeColumns);
  let shown = "";
  let exitCode: AdminExitCode = exitCodes.ok;
  await repeat(terminal, options.interval, async () => {
    const { data: rollout } = await getRollout<true>({
      client: connect(terminal, options),
      path: { id },
    });
    const { updated_at: _, ...state } = rollout;
    const seen = JSON.stringify(state);
    if (seen !== shown) {
      await print([rollout]);
      explain(terminal, rollout);
    }
    shown = seen;
    const stops = options.stopAtPause === true && rollout.state === "paused";
    exitCode = rollout.state === "completed" ? exitCodes.ok : exitCodes.partial;
    return stops || endedStates.includes(rollout.state);
  });
  return exitCode;
};

/** Writes to stderr why a rollout has stopped, and what an admin may do. */
const explain = ({ err }: Terminal, { id, state, reason, breach }: Rollout) => {
  if (reason === null || state === "running" || state === "soaking" || state === "completed")
    return;
  const write = (text: string) => err.write(`${withoutControls(text)}\n`);
  write(`${state}: ${describeReason(reason)}`);
  if (breach !== null && reason.code === "gate_breached")
    for (const { identity, condition, detail } of breach.evidence.slice(0, 5))
      write(`  ${identity}: ${condition}${detail === "" ? "" : `, ${detail}`}`);
  if (state === "paused") write(`  svc-admin rollouts resume ${id}, or roll-back, or abort`);
  if (state === "aborted")
    write(`  svc-admin rollouts roll-back ${id} gives its hosts what they had before`);
};
