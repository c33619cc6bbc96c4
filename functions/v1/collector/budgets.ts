import * as v from "valibot";
import type { Core, ReadCore, WriteCore } from "#functions/core.ts";
import { browseBudgets, putBudget, removeBudget } from "#functions/domain/volume/budgets.ts";
import { resource } from "#functions/http/resource.ts";
import { viewOf } from "#functions/http/route.ts";
import { Budget, BudgetBody, BudgetList, BudgetName } from "#proto/budget.ts";

const at = "/v1/collector/budgets";
const budgetView = viewOf(Budget);
const params = v.object({ name: BudgetName });

/** The route that lists the budgets of hosts, on the pool of reports. */
export const budgetReports = (core: ReadCore) =>
  resource(core, at, ({ get }) => ({
    listBudgets: get(
      "",
      "How many bytes core stores of each host in an hour, the smallest budget first, and how many hosts each holds",
      {
        returns: ["The budgets", BudgetList],
        handle: async () => ({ items: (await browseBudgets(core)).map(budgetView) }),
      },
    ),
  }));

/** The routes that change budgets. */
export const budgetChanges = (core: WriteCore & Pick<Core, "config">) =>
  resource(core, at, ({ put, remove }) => ({
    putBudget: put(
      "/:name",
      "Set how many bytes core stores in an hour of each host of a filter; a host that has sent more keeps the rest in its queue",
      {
        params,
        body: BudgetBody,
        bodyExample: { filter: "label.env:test", bytes_per_hour: 1_073_741_824 },
        returns: ["The budget, followed within seconds", Budget],
        problems: ["too_many_budgets"],
        handle: async ({ params: { name }, body, ...by }) =>
          budgetView(await putBudget(core, by, { name, ...body })),
      },
    ),

    deleteBudget: remove(
      "/:name",
      "Delete a budget; the hosts that it holds send again within seconds",
      {
        params,
        returns: ["The budget is deleted"],
        problems: ["not_found"],
        handle: ({ params: { name }, ...by }) => removeBudget(core, by, name),
      },
    ),
  }));
