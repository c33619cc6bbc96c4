import type { Core, ReadCore, WriteCore } from "#functions/core.ts";
import { requireFound } from "#functions/problems.ts";
import type { Paged, PageRequest } from "#functions/store/database/statements.ts";
import type { CountingRules } from "#functions/store/fleet/conditions.ts";
import type { Outage } from "#functions/store/fleet/counted-time.ts";
import {
  type DescribedRollout,
  findRollout,
  listRollouts,
  listTargets,
  type RolloutFilter,
  type TargetFilter,
  type TargetListRow,
} from "#functions/store/rollout/rollouts.ts";
import { auditedExport, type RequestedExport } from "../audit/audited-export.ts";
import { readCountingRules } from "../fleet/rules.ts";
import { soakEnd } from "./waves.ts";

/** A rollout, and the outages of core while it was open. */
interface TimedRollout extends DescribedRollout {
  outages: Outage[];
}

/** Adds the outages, which lengthen soaks. */
const timed = (row: DescribedRollout, { outages }: CountingRules): TimedRollout => ({
  ...row,
  outages: outages.filter(
    ({ beganAt, endedAt }) =>
      (endedAt === null || endedAt > row.createdAt) &&
      (row.endedAt === null || beganAt < row.endedAt),
  ),
  waves: row.waves.map((wave) => {
    if (wave.soakUntil === null || wave.completedAt !== null) return wave;
    const end = soakEnd(wave, wave.soakUntil, outages);
    return Number.isFinite(end) ? { ...wave, soakUntil: new Date(end) } : wave;
  }),
});

/** Returns one page of the rollouts, newest first. */
export const browseRollouts = async (
  core: ReadCore,
  filter: RolloutFilter,
  page: PageRequest,
): Promise<Paged<TimedRollout>> => {
  const [rules, { rows, next }] = await Promise.all([
    readCountingRules(core),
    listRollouts(core.db, filter, page),
  ]);
  return { rows: rows.map((row) => timed(row, rules)), next };
};

const requireRollout = async ({ db }: Pick<Core, "db">, id: string): Promise<DescribedRollout> =>
  requireFound(await findRollout(db, id), "rollout");

/** Returns a rollout. Throws 404 `not_found`. */
export const describeRollout = async (core: ReadCore, id: string): Promise<TimedRollout> =>
  timed(await requireRollout(core, id), await readCountingRules(core));

/** Returns one page of a rollout's targets, in the order of the waves. Throws 404 `not_found`. */
export const browseTargets = async (
  { db }: Pick<Core, "db">,
  filter: TargetFilter,
  page: PageRequest,
): Promise<Paged<TargetListRow>> => {
  await requireRollout({ db }, filter.rolloutId);
  return listTargets(db, filter, page);
};

/** Returns every target of a rollout under a filter, in batches; audited. Throws 404 `not_found`. */
export const exportTargets = async (
  core: WriteCore,
  filter: TargetFilter,
  request: RequestedExport,
): Promise<AsyncGenerator<TargetListRow[], void, void>> => {
  await requireRollout(core, filter.rolloutId);
  const entry = {
    action: "rollout.export",
    target: { type: "rollout", id: filter.rolloutId },
  } as const;
  return auditedExport(core, request, entry, (page: PageRequest) =>
    listTargets(core.db, filter, page),
  );
};
