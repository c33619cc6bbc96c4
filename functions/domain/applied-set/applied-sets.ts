import type { TimedCore, WriteCore } from "#functions/core.ts";
import { Problem, requireFound } from "#functions/problems.ts";
import {
  type AppliedSetRow,
  findAppliedSet,
  replaceAppliedSet,
} from "#functions/store/applied-set/applied-sets.ts";
import { type AppliedContent, applyLeaseMs } from "#proto/applied-set/applied-set.ts";
import { type By, recordOperatorAction } from "../audit/audit-log.ts";

/** Returns when core stops waiting for the running apply of a set; in the past if none runs. */
const leaseEnd = ({ content, updatedAt }: AppliedSetRow) =>
  content.complete ? 0 : updatedAt.getTime() + applyLeaseMs;

/**
 * Returns a set. While an apply runs, its revision is the one that this apply replaced: only the apply knows its own, so core rejects a
 * second one. Throws 404 `not_found` for a set that was never applied.
 */
export const getAppliedSet = async (
  { db, clock }: TimedCore,
  name: string,
): Promise<AppliedSetRow> => {
  const row = requireFound(await findAppliedSet(db, name), "set");
  return leaseEnd(row) > clock.now() ? { ...row, revision: row.revision - 1 } : row;
};

/**
 * Replaces the content of a set at the revision that the caller has read, 0 for none; audited. Throws 409 at another revision:
 * `apply_in_progress` while an apply runs, otherwise `conflict`.
 */
export const putAppliedSet = async (
  core: WriteCore,
  by: By,
  { name, revision, content }: { name: string; revision: number; content: AppliedContent },
): Promise<AppliedSetRow> =>
  core.db.transaction(async (tx) => {
    const row: AppliedSetRow = {
      name,
      revision: revision + 1,
      content,
      updatedAt: new Date(core.clock.now()),
      updatedByName: by.caller.email,
    };
    if (!(await replaceAppliedSet(tx, revision, row))) {
      const current = await findAppliedSet(tx, name);
      const leftMs = current === undefined ? 0 : leaseEnd(current) - core.clock.now();
      if (current !== undefined && leftMs > 0)
        throw new Problem("apply_in_progress", {
          detail: `${current.updatedByName} is applying this set: plan again once that has ended, or has been silent for two minutes`,
          retryAfterSeconds: Math.ceil(leftMs / 1000),
        });
      const detail = "The set was applied by somebody else since it was read: plan again";
      throw new Problem("conflict", { detail, extensions: { revision: current?.revision ?? 0 } });
    }
    const { complete, policies, watches, inventory, assignments } = content;
    await recordOperatorAction(tx, core, by, {
      action: "applied_set.put",
      target: { type: "applied_set", id: name },
      details: {
        revision: row.revision,
        complete,
        policies: policies.length,
        watches: watches.length,
        inventory: inventory !== null,
        hosts: assignments.reduce((sum, { identity_ids: ids }) => sum + ids.length, 0),
      },
    });
    return row;
  });
