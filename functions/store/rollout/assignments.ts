/** Writes the assignments of a rollout in batches. The caller has locked the rollout's row. */
import { sql } from "drizzle-orm";
import { configAssignment } from "#drizzle/schema/config.ts";
import type { TargetReason, TargetStatus } from "#proto/rollout/vocabulary.ts";
import type { AssignmentRow } from "../config/configs.ts";
import type { Executor } from "../database/database.ts";
import { arrayLiteral, insertRows } from "../database/statements.ts";
import { timestampAt } from "../fleet/rows.ts";

/** A target that is about to change, whose host is locked until the transaction ends, and the host's open assignment. */
export interface LockedTarget {
  place: number;
  identityId: string;
  identity: string;
  isRevoked: boolean;
  /** False if the host reports that it does not apply core's configs; null without a report. */
  applies: boolean | null;
  /** The assignment of the rollout, and the one that it replaced. */
  assignmentId: string | null;
  previousConfigId: string | null;
  openAssignmentId: string | null;
  openConfigId: string | null;
}

/** Finds the first targets with one of these statuses, of one wave if given, and locks their hosts in the order of ids. */
export const lockTargets = async (
  tx: Executor,
  {
    rolloutId,
    statuses,
    wave,
  }: { rolloutId: string; statuses: readonly TargetStatus[]; wave?: number },
  limit: number,
): Promise<LockedTarget[]> => {
  const ofWave = wave === undefined ? sql`` : sql`and wave = ${wave}`;
  const targets = await tx.execute<
    Pick<LockedTarget, "place" | "identityId" | "assignmentId" | "previousConfigId">
  >(sql`
    select place, identity_id as "identityId", assignment_id as "assignmentId", previous_config_id as "previousConfigId"
    from rollout_target
    where rollout_id = ${rolloutId}::uuid and status = any(${arrayLiteral(statuses)}::text[]) ${ofWave}
    order by place limit ${limit}`);
  if (targets.length === 0) return [];
  const ids = arrayLiteral(targets.map(({ identityId }) => identityId));
  await tx.execute(
    sql`select from collector_identity where id = any(${ids}::uuid[]) order by id for no key update`,
  );
  // A second statement, which sees what others committed before the locks.
  const hosts = await tx.execute<
    Omit<LockedTarget, keyof (typeof targets)[number]> & { identityId: string }
  >(sql`
    select i.id as "identityId", i.identity, i.revoked_at is not null as "isRevoked", h.apply_desired_config as applies,
      a.id as "openAssignmentId", a.config_id as "openConfigId"
    from unnest(${ids}::uuid[]) wanted
    cross join lateral (select * from collector_identity where id = wanted limit 1) i
    left join lateral (select apply_desired_config from collector_health where identity_id = wanted limit 1) h on true
    left join lateral (
      select id, config_id from config_assignment where identity_id = wanted and ended_at is null limit 1
    ) a on true`);
  const hostOf = new Map(hosts.map((host) => [host.identityId, host]));
  return targets.flatMap((target) => {
    const host = hostOf.get(target.identityId);
    return host === undefined ? [] : [{ ...target, ...host }];
  });
};

/** Ends the open assignments of hosts that the transaction has locked. */
export const endAssignments = async (
  tx: Executor,
  identityIds: readonly string[],
  endedAt: Date,
): Promise<void> => {
  if (identityIds.length === 0) return;
  await tx.execute(sql`update config_assignment set ended_at = ${timestampAt(endedAt)}
    where identity_id = any(${arrayLiteral(identityIds)}::uuid[]) and ended_at is null`);
};

/** Inserts open assignments. */
export const insertAssignments = async (
  tx: Executor,
  rows: readonly AssignmentRow[],
): Promise<void> => {
  await insertRows(tx, configAssignment, rows);
};

/** A change of a target. */
export interface TargetChange {
  place: number;
  status: TargetStatus;
  reason: TargetReason | null;
  assignmentId: string | null;
  previousConfigId: string | null;
}

/** Changes targets, and stores the time of the assignment or of the rollback. */
export const updateTargets = async (
  tx: Executor,
  rolloutId: string,
  changes: readonly TargetChange[],
  at: Date,
): Promise<void> => {
  const json = JSON.stringify(
    changes.map(({ place, status, reason, assignmentId, previousConfigId }) => ({
      place,
      status,
      reason,
      assignment_id: assignmentId,
      previous_config_id: previousConfigId,
    })),
  );
  await tx.execute(sql`
    update rollout_target t set status = c.status, reason = c.reason, assignment_id = c.assignment_id,
      previous_config_id = c.previous_config_id,
      assigned_at = case when c.status = 'assigned' then ${timestampAt(at)} else t.assigned_at end,
      reverted_at = case when c.status = 'reverted' then ${timestampAt(at)} else t.reverted_at end
    from json_to_recordset(${json}::json) as
      c (place int, status text, reason text, assignment_id uuid, previous_config_id uuid)
    where t.rollout_id = ${rolloutId}::uuid and t.place = c.place`);
};
