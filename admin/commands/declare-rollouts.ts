import { InvalidArgumentError } from "commander";
import { rolloutConditions } from "#proto/rollout/vocabulary.ts";
import {
  durationOption,
  everyHost,
  interval,
  limit,
  parseWholeNumber,
  severalOf,
} from "../terminal/parse-option.ts";
import { type AnswerOf, type Columns, commandsFrom } from "./command.ts";

/** A wave as typed: how far the rollout has got with it, and how long it soaks. */
export type Wave = { soak_seconds: number } & ({ percent: number } | { count: number });

const parseWave = (text: string): Wave => {
  const [, number, percent, soak] = /^(\d{1,9}(?:\.\d{1,3})?)(%?)(?::(\w+))?$/.exec(text) ?? [];
  if (number === undefined || (percent === "" && number.includes(".")))
    throw new InvalidArgumentError(
      "Give a share or a number of hosts, and how long to wait: 5%:10m, 20:1h, 100%.",
    );
  const soakSeconds = soak === undefined ? 0 : durationOption(soak);
  return {
    ...(percent === "%" ? { percent: Number(number) } : { count: Number(number) }),
    soak_seconds: soakSeconds,
  };
};

const defaultWavesText = "5%:10m 25%:10m 100%:10m";

/** The waves of `rollouts create` without `--wave`. */
export const defaultWaves: readonly Wave[] = defaultWavesText.split(" ").map(parseWave);

const parsePercent = (text: string) => {
  const [, number] = /^(\d{1,3}(?:\.\d{1,3})?)%?$/.exec(text) ?? [];
  if (number === undefined) throw new InvalidArgumentError("Give a percentage: 5, 0.5%.");
  return Number(number);
};

/** The columns of `rollouts list`, and of a rollout's changes. */
export const waveColumn = {
  wave: ({ wave, waves }: { wave: number; waves: readonly object[] }) => `${wave}/${waves.length}`,
};

const columns: Columns<"listRollouts"> = [
  "id",
  "state",
  waveColumn,
  "targets",
  "applied",
  "failed",
  "reverted",
  "reverted_failed",
  "skipped",
  { config: ({ config }) => config.name ?? config.config_hash.slice(0, 12) },
  "filter",
  "created_by_name",
  "created_at",
];

const reason = { "--reason <text>": "why, for the rollout and the audit log" };

const { calls, runs } = commandsFrom(() => import("./rollouts.ts"));

/** `svc-admin rollouts`. */
export const rolloutCommands = [
  runs(
    "rollouts create <config> [query...]",
    "Roll a config out to every host that the query finds now, wave by wave",
    (file) => file.createRolloutAction,
    {
      "--all": everyHost,
      "--wave <wave>": {
        says: `share or number of hosts so far, and the wait after it; ${defaultWavesText} by default`,
        parse: (text, before: readonly Wave[] = []) => [...before, parseWave(text)],
      },
      "--max-failed <percent>": {
        says: "the share of a wave's hosts that may fail",
        parse: parsePercent,
        default: "5",
      },
      "--condition <condition>": {
        says: "what counts as failed, all by default; repeatable",
        choices: rolloutConditions,
        parse: severalOf(rolloutConditions),
      },
      "--on-breach <reaction>": {
        says: "what core does when more fail",
        choices: ["pause", "roll-back"],
        default: "pause",
      },
      "--gate <rule>": {
        says: "what stops it besides failed hosts",
        choices: ["worse-than-control"],
      },
      "--watch": "then follow the rollout to its end",
      "--interval <duration>": interval("5s"),
    },
  ),
  calls("rollouts list", "List rollouts, newest first", "listRollouts", {
    options: {
      "--state <state>": "",
      "--config <config>": { says: "rollouts of this config", field: "config_id" },
      "--limit <count>": limit("at most so many rollouts"),
    },
    columns,
  }),
  calls(
    "rollouts show <rollout>",
    "Show a rollout: its waves, and the evidence of a breach",
    "getRollout",
    { print: (file) => file.printRollout },
  ),
  calls(
    "rollouts targets <rollout>",
    "List the hosts of a rollout in the order of the waves",
    "listRolloutTargets",
    {
      options: {
        "--wave <number>": { says: "hosts of this wave", parse: parseWholeNumber },
        "--status <status>": "",
      },
      columns: ["identity_id", "identity", "wave", "status", "reason", "condition", "detail"],
    },
  ),
  runs(
    "rollouts watch <rollout>",
    "Follow a rollout to its end; exits with 5 if it was rolled back or aborted",
    (file) => file.watchRolloutAction,
    {
      "--interval <duration>": interval("5s"),
      "--stop-at-pause": "end with 5 when it pauses, as a job should",
    },
  ),
  calls(
    "rollouts pause <rollout>",
    "Pause a rollout: no further host is assigned",
    "pauseRollout",
    { options: reason, print: (file) => file.printRollout },
  ),
  calls("rollouts resume <rollout>", "Resume a paused rollout", "resumeRollout", {
    options: reason,
    print: (file) => file.printRollout,
  }),
  calls(
    "rollouts abort <rollout>",
    "End a rollout; its hosts keep what they were assigned",
    "abortRollout",
    {
      options: reason,
      reads: "getRollout",
      asks: ({ record }) => `${subject(record)} and keep it; no other host gets it.`,
      print: (file) => file.printRollout,
    },
  ),
  calls(
    "rollouts roll-back <rollout>",
    "Give every host of a rollout, also an aborted one, what it had before",
    "rollBackRollout",
    {
      options: reason,
      reads: "getRollout",
      asks: ({ record }) => `${subject(record)}; each gets what it had before.`,
      print: (file) => file.printRollout,
    },
  ),
];

const subject = ({ id, config, applied, assigned, failed, targets }: AnswerOf<"getRollout">) =>
  `Rollout ${id} of config ${config.config_hash.slice(0, 12)}: ${applied + assigned + failed} of ${targets} hosts have it`;
