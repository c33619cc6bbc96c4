import type { AppliedContent } from "../../../proto/applied-set/applied-set.ts";
import type { Core } from "../../core.ts";
import { Problem } from "../../problems.ts";
import { type AppliedSetRow, findAppliedSet, replaceAppliedSet } from "../../store/applied-set/applied-sets.ts";
import { type Origin, operatorActor, recordAudit } from "../audit/audit-log.ts";
import type { Operator } from "../operator/authenticate.ts";

/** Returns a set. Throws 404 `not_found` for one that was never applied. */
export const getAppliedSet = async ({ db }: Pick<Core, "db">, name: string): Promise<AppliedSetRow> => {
  const row = await findAppliedSet(db, name);
  if (row === undefined) throw new Problem("not_found", { detail: "No such set" });
  return row;
};

/** Replaces the content of a set at the revision that was read, 0 for none; audited. Throws 409 `conflict` at another revision. */
export const putAppliedSet = async (
  { db, clock, entropy }: Pick<Core, "db" | "clock" | "entropy">,
  operator: Operator,
  { name, revision, content }: { name: string; revision: number; content: AppliedContent },
  origin: Origin,
): Promise<AppliedSetRow> =>
  db.transaction(async (tx) => {
    const row: AppliedSetRow = {
      name,
      revision: revision + 1,
      content,
      updatedAt: new Date(clock.now()),
      updatedByName: operator.email,
    };
    if (!(await replaceAppliedSet(tx, revision, row))) {
      const detail = "The set was applied by somebody else since it was read";
      const now = await findAppliedSet(tx, name);
      throw new Problem("conflict", { detail, extensions: { revision: now?.revision ?? 0 } });
    }
    const { complete, policies, watches, inventory, assignments } = content;
    await recordAudit(
      tx,
      { clock, entropy },
      {
        actor: operatorActor(operator),
        action: "applied_set.put",
        target: { type: "applied_set", id: name },
        outcome: "success",
        origin,
        details: {
          revision: row.revision,
          complete,
          policies: policies.length,
          watches: watches.length,
          inventory: inventory !== null,
          hosts: assignments.reduce((sum, { identity_ids: ids }) => sum + ids.length, 0),
        },
      },
    );
    return row;
  });
