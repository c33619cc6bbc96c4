import type { Rollout, RolloutWave } from "#proto/rollout/rollout.ts";
import {
  endedStates,
  type RolloutCondition,
  type RolloutState,
  rolloutStates,
  type TargetReason,
  type TargetStatus,
} from "#proto/rollout/vocabulary.ts";
import { withQuery } from "../browser/with-query.ts";
import type { StateWords } from "../design/icon.tsx";
import {
  formatCount,
  formatCountOf,
  formatDuration,
  formatTimestamp,
  plainText,
  type TimeZone,
} from "../format/format.ts";

/** Returns the name of the config of a rollout. */
export const configOf = ({ config }: Pick<Rollout, "config">): string =>
  plainText(config.name ?? config.config_hash.slice(0, 12));

/** Each state as the pages show it. */
export const rolloutStateWords: Readonly<Record<RolloutState, StateWords>> = {
  running: ["Running", "play", "info"],
  soaking: ["Soaking", "info", "info"],
  paused: ["Paused", "pause", "warn"],
  rolling_back: ["Rolling back", "previous", "warn"],
  rolled_back: ["Rolled back", "previous", "crit"],
  aborted: ["Aborted", "close", "muted"],
  completed: ["Completed", "check", "ok"],
};

/** The states of rollouts that have not ended. */
export const openStates: readonly RolloutState[] = rolloutStates.filter(
  (state) => !endedStates.includes(state),
);

/** Returns the status of a target in words. */
export const statusWords = (status: TargetStatus): string =>
  status === "pending" ? "not started" : status;

/** What each status means. */
export const statusMeanings: Readonly<Record<TargetStatus, string>> = {
  pending: "their wave has not started",
  assigned: "they should run the config, and have not reported it",
  applied: "they reported that they run the config",
  failed: "a condition of the gate began after the assignment",
  skipped: "core does not change them",
  reverted: "they have the config from before again",
};

/** The order in which a bar shows the statuses: what is done, what failed, what is under way, what waits. */
export const barStatuses = [
  "applied",
  "failed",
  "reverted",
  "assigned",
  "skipped",
  "pending",
] as const satisfies readonly TargetStatus[];

/** The conditions of a gate in words. */
export const conditionWords: Readonly<Record<RolloutCondition, string>> = {
  config_invalid: "config invalid",
  stale: "stale",
  rolled_back: "rolled back",
  queue_at_risk: "queue at risk",
  component_unhealthy: "component unhealthy",
  not_applied: "config not applied",
};

/** Why core does not change a target. */
export const targetReasonWords: Readonly<Record<TargetReason, string>> = {
  apply_desired_config_off: "does not accept central configs (apply_desired_config is off)",
  revoked: "revoked",
  reassigned: "somebody assigned another config",
};

/** Returns the address of the targets of a rollout under a filter: all of them unless a part is set. */
export const targetsPath = (
  rolloutId: string,
  view: { wave?: number | undefined; status?: TargetStatus | undefined } = {},
): string => `${withQuery(`/changes/rollouts/${rolloutId}`, view)}#targets`;

/** Returns how much of all targets a wave reaches, as requested: `5 %`, `10 hosts`. */
export const reachOf = ({ percent, count }: Pick<RolloutWave, "percent" | "count">): string =>
  percent === null ? formatCountOf(count ?? 0, "host") : `${percent} %`;

/** Whether a wave has started and completed. */
type WavePhase = "waiting" | "current" | "done";

/** Returns the phase of a wave. */
export const wavePhase = (wave: Pick<RolloutWave, "started_at" | "completed_at">): WavePhase => {
  if (wave.completed_at !== null) return "done";
  return wave.started_at === null ? "waiting" : "current";
};

/** Describes the phase of a wave, with its time. */
export const waveSentence = (wave: RolloutWave, state: RolloutState, zone: TimeZone): string => {
  if (wave.completed_at !== null) return `Completed at ${formatTimestamp(wave.completed_at, zone)}`;
  if (wave.started_at === null) return endedStates.includes(state) ? "Not started" : "Waiting";
  if (state === "soaking" && wave.soak_until !== null)
    return `Soaking until ${formatTimestamp(wave.soak_until, zone)}`;
  return `Started at ${formatTimestamp(wave.started_at, zone)}`;
};

/** Returns the gate in words. */
export const gateSentence = ({
  gate,
  on_breach: onBreach,
}: Pick<Rollout, "gate" | "on_breach">): string =>
  `At most ${gate.max_failed_percent} % of a wave's hosts may fail (${gate.states
    .map((state) => conditionWords[state])
    .join(
      ", ",
    )})${gate.worse_than_control ? ", and none may turn out worse than unchanged hosts" : ""}; otherwise the rollout ${onBreach === "pause" ? "pauses" : "rolls back"}.`;

/** Returns what exceeded the gate, in words. */
export const breachSentence = ({ breach, gate }: Pick<Rollout, "breach" | "gate">): string =>
  breach === null
    ? ""
    : `In wave ${breach.wave}, ${formatCountOf(breach.failed, "host")} failed: ${roundedPercent(breach.failed_percent)} % of the wave, and the gate allows ${gate.max_failed_percent} %.`;

const roundedPercent = (percent: number) => Math.round(percent * 10) / 10;

/** Returns who or what stopped a rollout: `by the gate`. */
export const stoppedBy = ({ code }: NonNullable<Rollout["reason"]>): string => {
  if (code === "database_restored") return "by a restore of the database";
  return code === "operator" ? "by an operator" : "by the gate";
};

/** Returns who or what stopped a rollout, with the detail: ` by an operator: maintenance`. */
const causeOf = (reason: Rollout["reason"]) => {
  if (reason === null) return "";
  const by = ` ${stoppedBy(reason)}`;
  return reason.code !== "gate_breached" && reason.detail !== null ? `${by}: ${reason.detail}` : by;
};

/** Describes the state of a rollout, its wave and its hosts. */
export const rolloutSentence = (rollout: Rollout, zone: TimeZone): string => {
  const { state, wave, waves, targets, applied, reverted } = rollout;
  const current = waves.find(({ number }) => number === wave);
  const waveText = `wave ${wave} of ${waves.length}`;
  const cause = causeOf(rollout.reason);
  const progress = `${formatCount(applied)} of ${formatCountOf(targets, "host")} applied the config`;
  const reversal = [`${formatCountOf(reverted, "host")} reverted`, hadFailed(rollout)]
    .filter(Boolean)
    .join(", ");
  const at = rollout.ended_at === null ? "" : ` at ${formatTimestamp(rollout.ended_at, zone)}`;
  switch (state) {
    case "running":
      return `Running ${waveText}: ${progress}.`;
    case "soaking":
      return current?.soak_until
        ? `Soaking in ${waveText} until ${formatTimestamp(current.soak_until, zone)}: ${progress}.`
        : `Soaking in ${waveText}: ${progress}.`;
    case "paused":
      return `Paused in ${waveText}${cause}: ${progress}.`;
    case "rolling_back":
      return `Rolling back in ${waveText}${cause}: ${reversal}.`;
    case "rolled_back":
      return `Rolled back${at}${cause}: ${reversal}.`;
    case "aborted":
      return `Aborted${at}${cause}: ${progress}.`;
    case "completed":
      return `Completed${at}: ${progress}.`;
  }
};

/** Describes how many of the reverted hosts had failed; undefined for none, or if core does not report it. */
export const hadFailed = ({
  reverted_failed: failed = 0,
}: Pick<Rollout, "reverted_failed">): string | undefined =>
  failed === 0 ? undefined : `${formatCount(failed)} of them had failed`;

/** A command of `svc-admin` that changes a rollout. */
interface RolloutCommand {
  command: string;
  about: string;
}

/** Returns the commands that an administrator can use on a rollout in its state. */
export const commandsOf = ({
  id,
  state,
}: Pick<Rollout, "id" | "state">): readonly RolloutCommand[] => {
  const command = (verb: string, about: string) => ({
    command: `svc-admin rollouts ${verb} ${id}`,
    about,
  });
  const rollBack = command("roll-back", "gives the assigned hosts their previous config");
  if (state === "aborted") return [rollBack];
  if (endedStates.includes(state) || state === "rolling_back") return [];
  return [
    state === "paused"
      ? command("resume", "continues with the current wave")
      : command("pause", "assigns nothing more until it is resumed"),
    command("abort", "ends it, and leaves the hosts as they are"),
    rollBack,
  ];
};

/** Returns the filter of a rollout in words. */
export const filterWords = (filter: string): string =>
  filter.trim() === "" ? "every host" : filter;

/** Returns how long a wave soaks, in words. */
export const soakWords = ({ soak_seconds: seconds }: Pick<RolloutWave, "soak_seconds">): string =>
  seconds === 0 ? "no soak" : `soaks ${formatDuration(seconds)}`;
