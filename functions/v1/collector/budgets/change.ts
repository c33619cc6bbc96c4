import * as v from "valibot";
import { Budget, BudgetBody, BudgetName } from "../../../../proto/budget.ts";
import type { Core } from "../../../core.ts";
import { type BudgetCore, putBudget, removeBudget } from "../../../domain/volume/budgets.ts";
import { scope } from "../../../http/guards.ts";
import { route } from "../../../http/route.ts";
import { viewOf } from "../../../http/view-of.ts";

const Params = v.object({ name: BudgetName });

/** `PUT /v1/collector/budgets/{name}`: sets a budget. */
export const putBudgetRoute = (core: BudgetCore & Pick<Core, "config">) =>
  route({
    method: "PUT",
    path: "/v1/collector/budgets/:name",
    operationId: "putBudget",
    summary:
      "Set how many bytes core stores in an hour of each host of a filter; a host that has sent more keeps the rest in its queue",
    guard: scope(core, "admin"),
    params: Params,
    body: BudgetBody,
    bodyExample: { filter: "label.env:test", bytes_per_hour: 1_073_741_824 },
    replies: { 200: { description: "The budget, followed within seconds", schema: Budget } },
    problems: ["too_many_budgets"],
    handle: async ({ params, body, caller, origin }) => {
      return { status: 200, body: budgetView(await putBudget(core, caller, { ...params, ...body }, origin)) };
    },
  });

/** `DELETE /v1/collector/budgets/{name}`: deletes a budget. */
export const deleteBudgetRoute = (core: BudgetCore & Pick<Core, "config">) =>
  route({
    method: "DELETE",
    path: "/v1/collector/budgets/:name",
    operationId: "deleteBudget",
    summary: "Delete a budget; the hosts that it holds send again within seconds",
    guard: scope(core, "admin"),
    params: Params,
    replies: { 204: { description: "The budget is deleted" } },
    problems: ["not_found"],
    handle: async ({ params, caller, origin }) => {
      await removeBudget(core, caller, params.name, origin);
      return { status: 204 };
    },
  });

/** Returns the view of a budget. */
export const budgetView = viewOf(Budget);
