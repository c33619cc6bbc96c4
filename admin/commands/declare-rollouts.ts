import { InvalidArgumentError, Option } from "commander";
import {
  rolloutConditions,
  rolloutStates,
  targetStatuses,
} from "../../proto/rollout/vocabulary.ts";
import type { CommandsOf } from "../terminal/command.ts";
import { all, count, durationOption, interval, limit, severalOf } from "./options.ts";

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

const parsePercent = (text: string): number => {
  const [, number] = /^(\d{1,3}(?:\.\d{1,3})?)%?$/.exec(text) ?? [];
  if (number === undefined) throw new InvalidArgumentError("Give a percentage: 5, 0.5%.");
  return Number(number);
};

const reason = () => new Option("--reason <text>", "why, for the rollout and the audit log");

/** Declares `svc-admin rollouts`. */
export const declareRollouts = (commandsOf: CommandsOf): void => {
  const add = commandsOf(() => import("./rollouts.ts"));
  add(
    "rollouts create <config> [query...]",
    "Roll a config out to every host that the query finds now, wave by wave",
    (file) => file.createRolloutAction,
    [
      all(),
      new Option(
        "--wave <wave>",
        `share or number of hosts so far, and the wait after it; ${defaultWavesText} by default`,
      ).argParser((text, before: readonly Wave[] = []) => [...before, parseWave(text)]),
      new Option("--max-failed <percent>", "the share of a wave's hosts that may fail")
        .argParser(parsePercent)
        .default(5),
      new Option("--condition <condition>", "what counts as failed, all by default; repeatable")
        .choices(rolloutConditions)
        .argParser(severalOf(rolloutConditions)),
      new Option("--on-breach <reaction>", "what core does when more fail")
        .choices(["pause", "roll-back"])
        .default("pause"),
      new Option("--gate <rule>", "what stops it besides failed hosts").choices([
        "worse-than-control",
      ]),
      new Option("--watch", "then follow the rollout to its end"),
      interval("5s"),
    ],
  );
  add("rollouts list", "List rollouts, newest first", (file) => file.listRolloutsAction, [
    new Option("--state <state>", "repeatable")
      .choices(rolloutStates)
      .argParser(severalOf(rolloutStates)),
    new Option("--config <config>", "rollouts of this config"),
    limit("at most so many rollouts"),
  ]);
  add(
    "rollouts show <rollout>",
    "Show a rollout: its waves, and the evidence of a breach",
    (file) => file.showRolloutAction,
  );
  add(
    "rollouts targets <rollout>",
    "List the hosts of a rollout in the order of the waves",
    (file) => file.listTargetsAction,
    [
      count("--wave <number>", "hosts of this wave"),
      new Option("--status <status>", "repeatable")
        .choices(targetStatuses)
        .argParser(severalOf(targetStatuses)),
    ],
  );
  add(
    "rollouts watch <rollout>",
    "Follow a rollout to its end; exits with 5 if it was rolled back or aborted",
    (file) => file.watchRolloutAction,
    [interval("5s"), new Option("--stop-at-pause", "end with 5 when it pauses, as a job should")],
  );
  add(
    "rollouts pause <rollout>",
    "Pause a rollout: no further host is assigned",
    (file) => file.pauseRolloutAction,
    [reason()],
  );
  add("rollouts resume <rollout>", "Resume a paused rollout", (file) => file.resumeRolloutAction, [
    reason(),
  ]);
  add(
    "rollouts abort <rollout>",
    "End a rollout; its hosts keep what they were assigned",
    (file) => file.abortRolloutAction,
    [reason()],
  );
  add(
    "rollouts roll-back <rollout>",
    "Give every host of a rollout, also an aborted one, what it had before",
    (file) => file.rollBackRolloutAction,
    [reason()],
  );
};
