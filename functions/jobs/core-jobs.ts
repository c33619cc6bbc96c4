import { hourMs, minuteMs } from "#kit/clock.ts";
import { uuidv7 } from "#kit/entropy.ts";
import type { Job } from "#kit/run-every.ts";
import { formatNoteKey } from "#proto/completeness/signed-note.ts";
import type { ConfiguredCore, Core, TimedCore } from "../core.ts";
import { chainAuditEvents, verifyChain } from "../domain/audit/chain.ts";
import { flushRefusals } from "../domain/audit/flush-refusals.ts";
import { settleHours } from "../domain/completeness/settle-hours.ts";
import { type StatementCore, writeStatement } from "../domain/completeness/write-statement.ts";
import { flushEnrollmentRefusals } from "../domain/enrollment/flush-refusals.ts";
import { deleteOldDiags } from "../domain/fleet/diags.ts";
import { judgeChanges } from "../domain/fleet/judge-changes.ts";
import { createHistoryKeeper } from "../domain/fleet/keep-history.ts";
import { endClaims } from "../domain/now/claims.ts";
import { createNowFinder } from "../domain/now/report-now.ts";
import { advanceRollout } from "../domain/rollout/advance.ts";
import { createVolumeKeeper } from "../domain/volume/keep-volume.ts";
import { deliverMessages, type SendRequest } from "../domain/watch/deliver.ts";
import { evaluateWatches, evaluationMs, expireWatches } from "../domain/watch/run-watches.ts";
import { findHead } from "../store/audit/audit.ts";
import { deleteUnusedLabelSets } from "../store/fleet/labels.ts";
import {
  correctHistory,
  correctHostTimes,
  correctOperatorTimes,
  correctRollouts,
} from "../store/fleet/times-ahead.ts";
import { recordClock } from "../store/retention/retention-clock.ts";
import { findOpenRollouts } from "../store/rollout/rollouts.ts";
import { correctMessages, correctSilences } from "../store/watch/watches.ts";

/** Returns the jobs of every core. Several cores may run each job: locks of the database admit one to a step. */
export const coreJobsOf = (core: Core, { send }: { send: SendRequest }): Job[] => {
  const completeness = { owner: uuidv7(core), retentionDays: core.config.accountRetentionDays };
  return [
    ["audit chain", 1_000, () => chainAuditEvents(core).then(() => undefined)],
    [
      "refused enrollments",
      10_000,
      async () => counted("events", await flushEnrollmentRefusals(core)),
    ],
    ["counted refusals", 10_000, async () => counted("events", await flushRefusals(core))],
    ["audit verification", 10_000, () => verifyAuditChain(core)],
    // Logged, so that a copy of the log can confirm the chain.
    ["audit head", hourMs, () => describeHead(core)],
    // A host may report another set each time.
    [
      "unused label sets",
      hourMs,
      async () => counted("deleted", await deleteUnusedLabelSets(core.db)),
    ],
    ["old diagnostics", 10 * minuteMs, async () => counted("deleted", await deleteOldDiags(core))],
    ["fleet history", minuteMs, createHistoryKeeper(core)],
    ["fleet changes", minuteMs, () => judgeChanges(core)],
    ["volume", minuteMs, createVolumeKeeper(core)],
    ["rollouts", 5_000, async (signal) => counted("steps", await advanceRollouts(core, signal))],
    [
      "watches",
      evaluationMs,
      async (signal) => {
        await evaluateWatches(core, signal);
        return counted("dropped", await expireWatches(core));
      },
    ],
    [
      "watch messages",
      2_000,
      async (signal) => counted("sent", await deliverMessages(core, send, signal)),
    ],
    [
      "line claims",
      minuteMs,
      async () =>
        counted("ended", await endClaims(core, createNowFinder({ ...core, db: core.reports }))),
    ],
    // One hour at a time after an outage, so that a clock that jumps ahead is noticed (retention-clock.ts) before many unfinished hours are
    // settled.
    ["completeness", 10_000, () => settleHours(core, completeness)],
    ["times ahead of the clock", minuteMs, () => correctTimes(core)],
  ];
};

/** Returns the job that writes the statement of each hour, 15 minutes after its end; one at a time after an outage, like `settleHours`. */
export const statementJobOf = (core: StatementCore & Pick<Core, "log">): Job => {
  if (core.logSigner)
    core.log.info({ log_key: formatNoteKey(core.logSigner.key) }, "statements are signed");
  const owner = uuidv7(core);
  return ["statement", minuteMs, () => writeStatement(core, owner)];
};

/** Returns what a job logs: nothing for a run that found nothing. */
const counted = (name: string, count: number) => (count === 0 ? undefined : { [name]: count });

const verifyAuditChain = async (core: Core): Promise<undefined> => {
  const { fault = null } = (await verifyChain(core)) ?? {};
  if (fault !== null)
    core.log.error(
      { ...fault },
      "the audit log's hash chain has a fault: run svc-server verify-audit",
    );
};

const describeHead = async ({ db }: Core) => {
  const head = await findHead(db);
  return head && { seq: head.seq, hash: head.hash.toHex() };
};

/** Steps of one rollout in a run, so that a large wave does not delay the others. */
const stepsMax = 100;

/**
 * Advances every open rollout as far as possible now, and returns the number of steps. Throws the first failure of a rollout once it has
 * advanced the others.
 */
export const advanceRollouts = async (
  core: ConfiguredCore,
  signal?: AbortSignal,
): Promise<number> => {
  let steps = 0;
  const failures: unknown[] = [];
  for (const id of await findOpenRollouts(core.db)) {
    try {
      for (let step = 0; step < stepsMax && signal?.aborted !== true; step += 1) {
        if ((await advanceRollout(core, id)) !== "more") break;
        steps += 1;
      }
    } catch (error) {
      failures.push(error);
    }
  }
  if (failures.length > 0) throw failures[0];
  return steps;
};

/**
 * Corrects the times that are ahead of the database's clock, because it, or that of an earlier core, was ahead when they were stored.
 * Returns undefined when there were none.
 */
export const correctTimes = async ({
  db,
  clock,
}: TimedCore): Promise<{ hosts: number; rollouts: number } | undefined> => {
  const now = new Date(clock.now());
  // A jump ahead pauses retention and statements of hours within a minute.
  await recordClock(db, now);
  const rollouts = await correctRollouts(db, now);
  await correctMessages(db, now);
  await correctSilences(db, now);
  await correctOperatorTimes(db, now);
  // Before the hosts and after them, because their correction changes their history.
  await correctHistory(db, now);
  let hosts = 0;
  let after = "00000000-0000-0000-0000-000000000000";
  for (;;) {
    const corrected = await db.transaction((tx) => correctHostTimes(tx, now, after));
    if (corrected === undefined) break;
    hosts += corrected.hosts;
    after = corrected.last;
  }
  if (hosts > 0) await correctHistory(db, now);
  return hosts + rollouts === 0 ? undefined : { hosts, rollouts };
};
