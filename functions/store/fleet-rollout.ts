import { type SQL, sql } from "drizzle-orm";
import { type Rollout, rollouts } from "../../proto/fleet-health/vocabulary.ts";
import { type CountingRules, staleBefore, timestampAt } from "./fleet-rows.ts";

/** The timestamp and thresholds that decide what a host has made of its desired config. */
export type RolloutRules = CountingRules;

/** Returns the predicate that a host counts in rollouts: it is not revoked. */
export const isCounted = ({ now }: Pick<RolloutRules, "now">): SQL => sql`revoked_from > ${timestampAt(now)}`;

const noHash = sql`'\\x'::bytea`;

/** Each applies to a host that is in none before it. */
const steps: Record<Rollout, (rules: RolloutRules) => SQL> = {
  silent: (rules) => sql`last_heartbeat_at < greatest(config_assigned_at, ${staleBefore(rules)})`,
  running: () => sql`running_config = desired_config`,
  failed: () => sql`config_invalid`,
  drifted: () => sql`true`,
};

/** Returns the predicate that a host is in this step of the rollout of its desired config. Never null. */
export const rolloutPredicate = (rollout: Rollout, rules: RolloutRules): SQL => {
  const before = rollouts.slice(0, rollouts.indexOf(rollout)).map((step) => sql`not ${steps[step](rules)}`);
  const parts = [isCounted(rules), sql`desired_config <> ${noHash}`, ...before, steps[rollout](rules)];
  return sql`(${sql.join(parts, sql` and `)})`;
};

/** Returns the step as a value, for rows that `isCounted` and that have a desired config. */
export const rolloutOf = (rules: RolloutRules): SQL<Rollout> => {
  const cases = rollouts.map((step) => sql`when ${steps[step](rules)} then ${sql.raw(`'${step}'`)}`);
  return sql`case ${sql.join(cases, sql` `)} end`;
};

/** When a host began to run its desired config: its first report of it, or the assignment if it ran it before. */
export const appliedAt = sql`greatest(running_config_since, config_assigned_at)`;

/** A column of `fleet_host` with a config's hash. */
export type HashColumn = "desired_config" | "running_config" | "last_known_good_config";

/** Returns the predicate that a host's hash begins with `prefix`, 6 to 64 lowercase hex digits. False while the hash is not known. */
export const hashBegins = (column: HashColumn, prefix: string): SQL => {
  const from = prefix.padEnd(64, "0");
  const to = prefix.padEnd(64, "f");
  return sql`${sql.raw(column)} between decode(${from}, 'hex') and decode(${to}, 'hex')`;
};
