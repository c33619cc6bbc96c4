import type { StoredBreach } from "#drizzle/schema/rollout.ts";
import type { ConfiguredCore } from "#functions/core.ts";
import { type ConfigRow, findConfig } from "#functions/store/config/configs.ts";
import type { Executor } from "#functions/store/database/database.ts";
import { tryLock } from "#functions/store/database/try-lock.ts";
import type { CountingRules } from "#functions/store/fleet/conditions.ts";
import {
  chooseComparedHosts,
  deleteComparedHosts,
  findComparedHosts,
  markSoak,
} from "#functions/store/rollout/compared-hosts.ts";
import {
  countFailedSince,
  countUnsettled,
  findEvidence,
  markApplied,
  markFailed,
  type Observed,
  skipChanged,
} from "#functions/store/rollout/observation.ts";
import {
  countTargets,
  findWaves,
  lockRollout,
  noTargets,
  type RolloutRow,
  updateRollout,
  updateWave,
  type WaveRow,
} from "#functions/store/rollout/rollouts.ts";
import { describeComparison, type HostComparison } from "#proto/fleet-health/comparison.ts";
import { evidenceMax } from "#proto/rollout/rollout.ts";
import { endedStates, type rolloutReasons } from "#proto/rollout/vocabulary.ts";
import { type AuditEntry, recordAudit } from "../audit/audit-log.ts";
import { compareFollowed, unchangedMatches } from "../fleet/compare-followed.ts";
import { readCountingRules } from "../fleet/rules.ts";
import { assignNext, revertNext, rolloutActor } from "./assign.ts";
import { soakEnd } from "./waves.ts";

/**
 * The result of one step of a rollout.
 * `more`: the next step may follow immediately. `idle`: the rollout waits. `busy`: another core advances rollouts.
 */
type Advance = "more" | "idle" | "busy";

/** Seconds in which a host that sends heartbeats must apply its config, or twice the stale threshold if that is longer. */
const applySecondsMin = 600;

/** Failed targets in the audit event of a breach; the rollout stores up to `evidenceMax`. */
const auditedEvidenceMax = 10;

/**
 * Takes one step of a rollout in one transaction: reads what its hosts report, evaluates the gate, and then assigns a batch, starts a soak, a
 * wave or a rollback, or ends the rollout. Each step depends on the rows alone, so a kill between two steps loses nothing.
 */
export const advanceRollout = (core: ConfiguredCore, rolloutId: string): Promise<Advance> =>
  core.db.transaction(async (tx) => {
    if (!(await tryLock(tx, "rollouts"))) return "busy";
    const row = await lockRollout(tx, rolloutId);
    if (row === undefined || endedStates.includes(row.state)) return "idle";
    const config = await findConfig(tx, row.configId);
    if (config === undefined) return "idle";
    return new Step(core, tx, {
      row,
      config,
      rules: await readCountingRules({ ...core, db: tx }),
    }).advance();
  });

/** One step, in its transaction. */
class Step {
  readonly #core: ConfiguredCore;
  readonly #tx: Executor;
  readonly #row: RolloutRow;
  readonly #config: ConfigRow;
  readonly #now: Date;
  readonly #observed: Observed;

  constructor(
    core: ConfiguredCore,
    tx: Executor,
    { row, config, rules }: { row: RolloutRow; config: ConfigRow; rules: CountingRules },
  ) {
    this.#core = core;
    this.#tx = tx;
    this.#row = row;
    this.#config = config;
    this.#now = rules.now;
    this.#observed = {
      rolloutId: row.id,
      configHash: config.configHash,
      conditions: row.conditions,
      ...rules,
      applySeconds: Math.max(applySecondsMin, 2 * rules.thresholds.staleAfterSeconds),
    };
  }

  async advance(): Promise<Advance> {
    if (this.#row.state === "rolling_back") return this.#revert();
    await this.#observe();
    if (this.#row.state === "paused") return "idle";
    if (await this.#evaluateGate()) return "more";
    return this.#row.state === "soaking" ? this.#soak() : this.#run();
  }

  /** Reads what the hosts report. */
  async #observe(): Promise<void> {
    const tx = this.#tx;
    const observed = this.#observed;
    const changed =
      (await skipChanged(tx, observed)) +
      (await markApplied(tx, observed)) +
      (await markFailed(tx, observed));
    if (changed > 0) await this.#storeTargetCounts();
  }

  /** Pauses or rolls back the rollout if too many targets of a wave have failed. Returns whether it did. */
  async #evaluateGate(): Promise<boolean> {
    const { id: rolloutId, maxFailedPercent, gateFrom: since } = this.#row;
    const waves = await findWaves(this.#tx, rolloutId);
    for (const { wave, failed } of await countFailedSince(this.#tx, { rolloutId }, since)) {
      const row = waves.find(({ number }) => number === wave);
      const changeable = row ? row.targets - row.skipped : failed;
      const failedPercent = Math.round((failed * 10_000) / Math.max(1, changeable)) / 100;
      if (failed * 100 <= maxFailedPercent * changeable) continue;
      const evidence = await findEvidence(this.#tx, { rolloutId, wave, since, limit: evidenceMax });
      await this.#stopRollout("gate_breached", {
        reason: `${failed} of ${changeable} hosts of wave ${wave} failed (${failedPercent} %, allowed ${maxFailedPercent} %)`,
        breach: { wave, failed, failedPercent, at: this.#now.toISOString(), evidence },
        wave,
        evidence: {
          failed,
          hosts: changeable,
          failed_percent: failedPercent,
          max_failed_percent: maxFailedPercent,
          evidence: evidence.slice(0, auditedEvidenceMax).map((each) => ({
            identity: each.identity,
            condition: each.condition,
            began_at: each.beganAt,
            detail: each.detail,
          })),
        },
      });
      return true;
    }
    return false;
  }

  /** Assigns the next batch of the wave, or starts its soak once its hosts have settled. */
  async #run(): Promise<Advance> {
    const wave = await this.#wave();
    if (wave.startedAt === null) {
      await updateWave(this.#tx, wave, { startedAt: this.#now });
      // Before the first assignment.
      await chooseComparedHosts(
        this.#tx,
        { rolloutId: this.#row.id, wave: wave.number },
        this.#observed,
      );
      await this.#audit("rollout.wave_start", {
        wave: wave.number,
        hosts: wave.pending,
        config_id: this.#config.id,
      });
    }
    const wanted = { config: this.#config, hosts: wave.targets };
    if ((await assignNext(this.#tx, this.#core, this.#row, wanted)) > 0) {
      await this.#storeTargetCounts();
      return "more";
    }
    const { waiting, applied, assigned } = await countUnsettled(
      this.#tx,
      this.#observed,
      wave.number,
    );
    if (waiting > 0) return "idle";
    // Silent hosts alone prove nothing for the waves that follow.
    if (applied === 0 && assigned > 0 && !(await this.#isLast(wave))) return "idle";
    const soakSeconds = applied + assigned === 0 ? 0 : wave.soakSeconds;
    await updateWave(this.#tx, wave, {
      soakUntil: new Date(this.#now.getTime() + soakSeconds * 1000),
    });
    await markSoak(this.#tx, { rolloutId: this.#row.id, wave: wave.number });
    await this.#update({ state: "soaking" });
    return "more";
  }

  /** Completes a wave that has soaked, and starts the next one; after the last wave, completes the rollout. */
  async #soak(): Promise<Advance> {
    const wave = await this.#wave();
    if (
      wave.soakUntil &&
      soakEnd(wave, wave.soakUntil, this.#observed.outages) > this.#now.getTime()
    )
      return "idle";
    if (await this.#stopIfWorse(wave)) return "more";
    await updateWave(this.#tx, wave, { completedAt: this.#now });
    if (!(await this.#isLast(wave))) {
      await this.#update({ state: "running", wave: wave.number + 1 });
      return "more";
    }
    await this.#end("completed");
    const { applied, failed, skipped, targets } = await this.#sums();
    await this.#audit("rollout.complete", {
      applied,
      failed,
      skipped,
      hosts: targets,
      config_id: this.#config.id,
    });
    return "idle";
  }

  /** Compares the hosts of a wave with unchanged ones, once: an operator who resumes accepts the result. Returns whether this stopped it. */
  async #stopIfWorse(wave: WaveRow): Promise<boolean> {
    if (wave.comparison !== null) return false;
    const comparison = await compareWave(this.#tx, wave, this.#observed);
    await updateWave(this.#tx, wave, { comparison });
    if (comparison?.verdict !== "worse" || !this.#row.stopsIfWorse) return false;
    await this.#stopRollout("worse_than_control", {
      reason: `Wave ${wave.number}: ${describeComparison(comparison)}`,
      wave: wave.number,
      evidence: { comparison },
    });
    return true;
  }

  /** Pauses the rollout or rolls it back, as its `onBreach` says, and audits why. */
  async #stopRollout(
    reasonCode: Extract<(typeof rolloutReasons)[number], "gate_breached" | "worse_than_control">,
    {
      reason,
      wave,
      evidence,
      breach,
    }: { reason: string; wave: number; evidence: object; breach?: StoredBreach },
  ): Promise<void> {
    const pauses = this.#row.onBreach === "pause";
    const state = pauses ? "paused" : "rolling_back";
    await this.#update({ state, reasonCode, reason, ...(breach ? { breach } : {}) });
    await this.#audit("rollout.breach", { wave, ...evidence });
    await this.#audit(
      pauses ? "rollout.pause" : "rollout.roll_back",
      { wave },
      { reasonCode, reason },
    );
  }

  /** Reverts the next batch, or ends the rollout when none is left. */
  async #revert(): Promise<Advance> {
    const { targets: hosts } = await this.#sums();
    if ((await revertNext(this.#tx, this.#core, this.#row, { hosts })) > 0) {
      await this.#storeTargetCounts();
      return "more";
    }
    await this.#end("rolled_back");
    const { reverted, skipped } = await this.#sums();
    await this.#audit("rollout.rolled_back", { reverted, skipped, config_id: this.#config.id });
    return "idle";
  }

  async #wave(): Promise<WaveRow> {
    const wave = (await findWaves(this.#tx, this.#row.id)).find(
      ({ number }) => number === this.#row.wave,
    );
    if (wave === undefined) throw new Error("the rollout has no such wave");
    return wave;
  }

  async #isLast({ number }: WaveRow): Promise<boolean> {
    return (await findWaves(this.#tx, this.#row.id)).every((each) => each.number <= number);
  }

  async #sums() {
    const waves = await findWaves(this.#tx, this.#row.id);
    const sum = (count: "applied" | "failed" | "skipped" | "reverted" | "targets") =>
      waves.reduce((all, wave) => all + wave[count], 0);
    return {
      applied: sum("applied"),
      failed: sum("failed"),
      skipped: sum("skipped"),
      reverted: sum("reverted"),
      targets: sum("targets"),
    };
  }

  /** Stores the counts of the waves' targets. A paused rollout keeps the time of its pause. */
  async #storeTargetCounts(): Promise<void> {
    const counts = await countTargets(this.#tx, this.#row.id);
    for (const [number, counted] of counts)
      await updateWave(this.#tx, { rolloutId: this.#row.id, number }, { ...noTargets, ...counted });
    if (this.#row.state !== "paused") await this.#update({});
  }

  #update(change: Partial<RolloutRow>): Promise<void> {
    return updateRollout(this.#tx, this.#row.id, { ...change, updatedAt: this.#now });
  }

  #end(state: "completed" | "rolled_back"): Promise<void> {
    return this.#update({ state, endedAt: this.#now });
  }

  #audit(
    action: AuditEntry["action"],
    details: Record<string, unknown>,
    why: Pick<AuditEntry, "reasonCode" | "reason"> = {},
  ): Promise<void> {
    return recordAudit(this.#tx, this.#core, {
      actor: rolloutActor,
      action,
      target: { type: "rollout", id: this.#row.id },
      outcome: action === "rollout.breach" ? "failure" : "success",
      ...why,
      details,
    });
  }
}

/** Compares the hosts of a wave that has soaked with unchanged ones, once. Null if no host was chosen when it started. */
const compareWave = async (
  tx: Executor,
  { rolloutId, number, startedAt }: WaveRow,
  rules: CountingRules,
): Promise<HostComparison | null> => {
  const wave = { rolloutId, wave: number };
  const hosts =
    startedAt === null ? [] : await findComparedHosts(tx, { ...wave, startedAt }, rules);
  await deleteComparedHosts(tx, wave);
  if (hosts.every(({ isControl }) => isControl)) return null;
  return compareFollowed(hosts, unchangedMatches, rules.now);
};
