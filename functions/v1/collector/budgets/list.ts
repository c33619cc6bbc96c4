import { BudgetList } from "../../../../proto/budget.ts";
import type { Core } from "../../../core.ts";
import { browseBudgets } from "../../../domain/volume/budgets.ts";
import { scope } from "../../../http/guards.ts";
import { route } from "../../../http/route.ts";
import { budgetView } from "./change.ts";

/** `GET /v1/collector/budgets`: the budgets of hosts. */
export const listBudgetsRoute = (core: Pick<Core, "config" | "db" | "clock">) =>
  route({
    method: "GET",
    path: "/v1/collector/budgets",
    operationId: "listBudgets",
    summary:
      "How many bytes core stores of each host in an hour, the smallest budget first, and how many hosts each holds",
    guard: scope(core, "audit"),
    replies: { 200: { description: "The budgets", schema: BudgetList } },
    handle: async () => ({ status: 200, body: { items: (await browseBudgets(core)).map(budgetView) } }),
  });
