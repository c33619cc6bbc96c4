import type { ConfiguredCore } from "#functions/core.ts";
import { Problem, requireFound } from "#functions/problems.ts";
import {
  countSharedTargets,
  type DescribedRollout,
  findOpenRollouts,
  findRollout,
  lockRollout,
  lockRolloutCreation,
  type RolloutRow,
  updateRollout,
} from "#functions/store/rollout/rollouts.ts";
import type { AuditAction } from "#proto/audit-actions.ts";
import type { RolloutState } from "#proto/rollout/vocabulary.ts";
import { type By, recordOperatorAction } from "../audit/audit-log.ts";

/** An operator's action on a rollout. */
export type RolloutControl = "pause" | "resume" | "abort" | "roll_back";

interface Transition {
  action: AuditAction;
  from: readonly RolloutState[];
  /** The states in which the action has been done already. */
  done: readonly RolloutState[];
  change(row: RolloutRow, now: Date): Partial<RolloutRow>;
}

const transitions: Readonly<Record<RolloutControl, Transition>> = {
  pause: {
    action: "rollout.pause",
    from: ["running", "soaking"],
    done: ["paused"],
    change: () => ({ state: "paused" }),
  },
  resume: {
    action: "rollout.resume",
    from: ["paused"],
    done: ["running", "soaking"],
    // A wave that was soaking starts its soak again. Failures before the resumption of a breach no longer count.
    change: ({ reasonCode, gateFrom }, now) => ({
      state: "running",
      gateFrom: reasonCode === "gate_breached" ? now : gateFrom,
    }),
  },
  abort: {
    action: "rollout.abort",
    from: ["running", "soaking", "paused", "rolling_back"],
    done: ["aborted"],
    change: (_, now) => ({ state: "aborted", endedAt: now }),
  },
  roll_back: {
    action: "rollout.roll_back",
    // An aborted rollout left its hosts with the config.
    from: ["running", "soaking", "paused", "aborted"],
    done: ["rolling_back", "rolled_back"],
    change: () => ({ state: "rolling_back", endedAt: null }),
  },
};

/**
 * Pauses, resumes, aborts or rolls back a rollout; idempotent. The job carries it out. Throws 404 `not_found`, 409 `rollout_state` with the
 * state if it does not allow the action, and 409 `rollout_overlap` if an aborted rollout is to be rolled back and another open one has one
 * of its hosts.
 */
export const controlRollout = async (
  core: ConfiguredCore,
  by: By,
  {
    rolloutId,
    control,
    reason,
  }: { rolloutId: string; control: RolloutControl; reason: string | null },
): Promise<DescribedRollout> =>
  core.db.transaction(async (tx) => {
    // Prevents that a rollout is created while this one opens again.
    if (control === "roll_back") await lockRolloutCreation(tx);
    const row = requireFound(await lockRollout(tx, rolloutId), "rollout");
    const { action, from, done, change } = transitions[control];
    if (!done.includes(row.state)) {
      if (!from.includes(row.state))
        throw new Problem("rollout_state", {
          detail: `The rollout is ${row.state.replace("_", " ")}`,
          extensions: { state: row.state },
        });
      if (row.endedAt !== null)
        refuseOverlap(await countSharedTargets(tx, rolloutId, await findOpenRollouts(tx)));
      const now = new Date(core.clock.now());
      const why =
        control === "resume"
          ? { reasonCode: null, reason: null }
          : { reasonCode: "operator", reason };
      await updateRollout(tx, rolloutId, { ...why, ...change(row, now), updatedAt: now });
      await recordOperatorAction(tx, core, by, {
        action,
        target: { type: "rollout", id: rolloutId },
        reason,
        details: { wave: row.wave, config_id: row.configId, from: row.state },
      });
    }
    return requireFound(await findRollout(tx, rolloutId), "rollout");
  });

/** Throws 409 `rollout_overlap` with the rollouts that have some of the hosts, unless there are none. */
export const refuseOverlap = (overlaps: readonly { rolloutId: string; hosts: number }[]): void => {
  const [first] = overlaps;
  if (first === undefined) return;
  throw new Problem("rollout_overlap", {
    detail: `The rollout ${first.rolloutId} has ${first.hosts} of these hosts`,
    extensions: {
      rollouts: overlaps.map(({ rolloutId, hosts }) => ({ rollout_id: rolloutId, hosts })),
    },
  });
};
