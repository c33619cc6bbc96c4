import type { TimedCore, WriteCore } from "#functions/core.ts";
import { Problem, requireFound } from "#functions/problems.ts";
import type { Executor } from "#functions/store/database/database.ts";
import {
  type BudgetRow,
  countHeldHosts,
  deleteBudgetRow,
  findBudgets,
  lockBudgets,
  putBudgetRow,
} from "#functions/store/volume/budgets.ts";
import { type BudgetBody, budgetsMax } from "#proto/budget.ts";
import {
  type FilterPart,
  type FleetFilter,
  filterParts,
  partNegatedBy,
} from "#proto/fleet-health/filter.ts";
import { type AuditEntry, type By, recordOperatorAction } from "../audit/audit-log.ts";
import { parseFilter } from "../fleet/parse-filter.ts";

/** A budget, and the number of hosts that it holds now. */
interface DescribedBudget extends BudgetRow {
  heldHosts: number;
}

/** Properties of a host, not its state: a budget must not depend on its own effect. */
const budgetParts: ReadonlySet<FilterPart> = new Set([
  "device",
  "hostname",
  "identity",
  "label",
  "platform",
  "policy",
]);

/** Parses the filter of a budget. Throws 422 `validation_failed`. */
const parseBudgetFilter = (query: string, now: number): FleetFilter => {
  const filter = parseFilter(query, now);
  const errors = (Object.keys(filter) as FilterPart[]).flatMap((part) =>
    budgetParts.has(partNegatedBy(part) ?? part)
      ? []
      : [
          {
            path: "filter",
            message: `${filterParts[part].parameter}: a budget cannot depend on a host's state`,
          },
        ],
  );
  if (errors.length > 0) throw new Problem("validation_failed", { errors });
  return filter;
};

/** Returns the budgets, the smallest first. */
export const browseBudgets = async ({ db, clock }: TimedCore): Promise<DescribedBudget[]> => {
  const [budgets, held] = await Promise.all([findBudgets(db), countHeldHosts(db, clock.now())]);
  return budgets.map((budget) => ({ ...budget, heldHosts: held.get(budget.name) ?? 0 }));
};

/** Creates or changes a budget; cores apply it within seconds. Throws 422 `validation_failed` and 409 `too_many_budgets`. */
export const putBudget = async (
  core: WriteCore,
  by: By,
  { name, filter, bytes_per_hour: bytesPerHour }: BudgetBody & { name: string },
): Promise<DescribedBudget> => {
  const now = core.clock.now();
  parseBudgetFilter(filter, now);
  return core.db.transaction(async (tx) => {
    const budgets = await lockBudgets(tx);
    const before = budgets.find((budget) => budget.name === name);
    if (before === undefined && budgets.length >= budgetsMax) throw new Problem("too_many_budgets");
    const row = {
      name,
      filter,
      bytesPerHour,
      changedAt: new Date(now),
      changedByName: by.caller.email,
    };
    await putBudgetRow(tx, row);
    const details = {
      filter,
      bytes_per_hour: bytesPerHour,
      bytes_per_hour_before: before?.bytesPerHour ?? null,
    };
    await audit(tx, core, by, { action: "budget.put", name, details });
    return { ...row, heldHosts: (await countHeldHosts(tx, now)).get(name) ?? 0 };
  });
};

/** Deletes a budget, and releases the hosts that it holds within seconds. Throws 404 `not_found`. */
export const removeBudget = (core: WriteCore, by: By, name: string): Promise<void> =>
  core.db.transaction(async (tx) => {
    const budgets = await lockBudgets(tx);
    const before = requireFound(
      budgets.find((budget) => budget.name === name),
      "budget",
    );
    await deleteBudgetRow(tx, name);
    const details = { filter: before.filter, bytes_per_hour: before.bytesPerHour };
    await audit(tx, core, by, { action: "budget.delete", name, details });
  });

const audit = (
  tx: Executor,
  core: WriteCore,
  by: By,
  { name, ...entry }: Pick<AuditEntry, "action" | "details"> & { name: string },
) =>
  recordOperatorAction(tx, core, by, {
    ...entry,
    target: { type: "budget", id: name },
  });
