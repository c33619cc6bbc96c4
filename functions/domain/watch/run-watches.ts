import type { Core } from "#functions/core.ts";
import type { ViewedFleet } from "#functions/store/fleet/select-hosts.ts";
import { countHosts } from "#functions/store/fleet/summary.ts";
import { findRetentionPause } from "#functions/store/retention/retention-pause.ts";
import {
  addWatchEvent,
  deleteOldMessages,
  deleteWatchEvents,
  findAnnouncedWatches,
  findDueWatches,
  lockWatch,
  updateWatch,
  type WatchRow,
} from "#functions/store/watch/watches.ts";
import { dayMs } from "#kit/clock.ts";
import type { FleetFilter } from "#proto/fleet-health/filter.ts";
import { parseQuery } from "#proto/fleet-health/query-language/parse.ts";
import { findCommonFactor } from "../fleet/find-cause.ts";
import { readFleetRules } from "../fleet/rules.ts";
import { evaluateWatch, type WatchCount } from "./evaluate.ts";
import { addMessages } from "./watches.ts";

/** The parts of core that evaluate watches. */
type WatchJobCore = Pick<
  Core,
  "config" | "watches" | "db" | "reports" | "clock" | "entropy" | "fleetColumns" | "observe"
>;

/** The interval between evaluations of a watch. */
export const evaluationMs = 10_000;
/** A core evaluates a watch that no core has evaluated for this long, so several cores share the work. */
const dueMs = 0.8 * evaluationMs;

/** A message that no receiver has accepted for this long is dropped. */
const messageMsMax = dayMs;

/** Two watches have one cause if they share this part of their hosts. */
const sharedShareMin = 0.9;

/**
 * Evaluates the watches that are due, and returns how many. Several cores may run it: the lock of a watch's row admits one. A watch that
 * cannot be evaluated records it, and does not stop the others: throws the error after the last one.
 */
export const evaluateWatches = async (
  core: WatchJobCore,
  signal?: AbortSignal,
): Promise<number> => {
  const now = new Date(core.clock.now());
  const dueWatches = await findDueWatches(core.db, dueAt(now));
  if (dueWatches.length === 0) return 0;
  const db = core.reports;
  const rules = await readFleetRules({ ...core, db });
  const view = { db, rules, hosts: await core.fleetColumns?.current() };
  let evaluated = 0;
  const errors: unknown[] = [];
  for (const row of dueWatches) {
    if (signal?.aborted) break;
    const isEvaluated = await evaluate(core, row, view).catch(
      (error: unknown) => void errors.push(error),
    );
    if (isEvaluated) evaluated += 1;
  }
  if (errors.length > 0) throw errors[0];
  return evaluated;
};

const dueAt = (now: Date) => ({ now, before: new Date(now.getTime() - dueMs) });

const isDue = ({ evaluatedAt }: WatchRow, now: Date) => {
  const { before } = dueAt(now);
  return evaluatedAt === null || evaluatedAt < before || evaluatedAt > now;
};

/** Evaluates a watch and stores the result, unless the watch has changed since it was read. */
const evaluate = async (core: WatchJobCore, found: WatchRow, view: ViewedFleet) => {
  const { now, outages } = view.rules;
  const { filter, faults } = parseQuery(found.filter, now);
  const fault = faults[0]?.message ?? null;
  const counted: WatchCount = {
    now,
    outages,
    count: fault === null ? await countHosts(view, [filter]) : 0,
  };
  const isFiring = fault === null && evaluateWatch(found, counted).message === "firing";
  const cause = isFiring
    ? await findCause(core, view, { filter, row: found, count: counted.count })
    : noCause;
  return core.db.transaction(async (tx) => {
    const row = await lockWatch(tx, found.id);
    if (row === undefined || row.revision !== found.revision || !isDue(row, now)) return false;
    if (fault !== null) {
      await updateWatch(tx, row.id, { fault, count: null, evaluatedAt: now });
      return true;
    }
    const { change, event, message } = evaluateWatch(row, counted);
    const isExplained = message === "firing" && cause.explainedBy !== null;
    const next: WatchRow = {
      ...row,
      ...change,
      fault: null,
      ...(message === "firing" ? cause : {}),
      ...(isExplained ? { announcedCount: null } : {}),
      ...(change.isFiring === false ? noCause : {}),
    };
    const { id, ...columns } = next;
    await updateWatch(tx, id, columns);
    if (event !== null)
      await addWatchEvent(tx, {
        watchId: id,
        at: now,
        kind: event,
        count: counted.count,
        detail: detailOf(next),
      });
    // A message that a watch has ended describes it as it was.
    if (message === "resolved")
      await addMessages(
        tx,
        core,
        { ...row, count: counted.count },
        { type: "watch.resolved", at: now },
      );
    if (message === "firing" && !isExplained)
      await addMessages(tx, core, next, { type: "watch.firing", at: now });
    return true;
  });
};

type Cause = Pick<WatchRow, "commonFactor" | "explainedBy">;
const noCause: Cause = { commonFactor: null, explainedBy: null };

/** Finds what the hosts have in common, and a watch whose message covers them: with at least as many hosts, including most of these. */
const findCause = async (
  core: WatchJobCore,
  view: ViewedFleet,
  { filter, row, count: hosts }: { filter: FleetFilter; row: WatchRow; count: number },
): Promise<Cause> => {
  const commonFactor = await findCommonFactor(view, filter);
  if (commonFactor === undefined) return noCause;
  const { kind, value } = commonFactor;
  for (const other of await findAnnouncedWatches(core.db, row.id)) {
    const announced = other.commonFactor;
    if (announced?.kind !== kind || announced.value !== value) continue;
    if ((other.announcedCount ?? 0) < hosts) continue;
    if (!row.receivers.every((receiver) => other.receivers.includes(receiver))) continue;
    const shared = await countHosts(view, [
      filter,
      parseQuery(other.filter, view.rules.now).filter,
    ]);
    if (shared >= sharedShareMin * hosts) return { commonFactor, explainedBy: other.id };
  }
  return { commonFactor, explainedBy: null };
};

const detailOf = ({
  isFiring,
  silencedUntil,
  evaluatedAt,
  explainedBy,
  commonFactor,
}: WatchRow) => {
  if (!isFiring) return null;
  const remarks = [
    commonFactor && `${commonFactor.selected} have ${commonFactor.kind} ${commonFactor.value}`,
    silencedUntil &&
      evaluatedAt &&
      evaluatedAt < silencedUntil &&
      `silenced until ${silencedUntil.toISOString()}`,
    explainedBy && `in the message of ${explainedBy}`,
  ];
  return remarks.filter(Boolean).join("; ") || null;
};

/**
 * Drops messages that are too old, and deletes events older than the fleet's history, except while a jump of the clock pauses retention.
 * Returns the number of dropped messages.
 */
export const expireWatches = async ({
  db,
  clock,
  config,
  observe,
}: WatchJobCore): Promise<number> => {
  if ((await findRetentionPause(db)) !== null) return 0;
  const now = new Date(clock.now());
  await deleteWatchEvents(db, new Date(now.getTime() - config.stateRetentionDays * dayMs));
  return db.transaction(async (tx) => {
    const dropped = await deleteOldMessages(tx, new Date(now.getTime() - messageMsMax));
    for (const { watchId, receiver, lastError } of dropped) {
      observe.watchMessage(receiver, "dropped");
      await addWatchEvent(tx, {
        watchId,
        at: now,
        kind: "dropped",
        receiver,
        detail: `after a day: ${lastError ?? "not tried"}`,
      });
    }
    return dropped.length;
  });
};
