import {
  deleteBudget,
  type ListBudgetsResponse,
  listBudgets,
  putBudget,
} from "../../client/index.ts";
import { writeSize } from "../../proto/fleet-health/query-language/quantities.ts";
import type { Action } from "../terminal/command.ts";
import { confirm } from "../terminal/confirm.ts";
import { connect } from "../terminal/connect.ts";
import { columnsOf } from "../terminal/list-rows.ts";
import { type Column, printAnswer, printRows } from "../terminal/output.ts";
import { checkSelection } from "./fleet.ts";

type Budget = ListBudgetsResponse["items"][number];

const columns: readonly Column<Budget>[] = [
  ...columnsOf<Budget>("name", "filter"),
  { title: "an hour", value: ({ bytes_per_hour }) => writeSize(bytes_per_hour) },
  { title: "held hosts", value: ({ held_hosts }) => held_hosts },
  ...columnsOf<Budget>("changed_at", "changed_by_name"),
];

/** `svc-admin budgets list`: the smallest first. */
export const listBudgetsAction: Action<object> = async (terminal, options) => {
  const { data } = await listBudgets<true>({ client: connect(terminal, options) });
  await printRows(terminal, options, columns, data.items);
};

/** `svc-admin budgets set`. */
export const setBudgetAction: Action<{ bytes: number; all?: boolean }> = async (
  terminal,
  { bytes, all, ...options },
  name = "",
  ...words
) => {
  checkSelection(words, { all }, new Date(terminal.clock.now()));
  const body = { filter: words.join(" "), bytes_per_hour: bytes };
  await printAnswer(
    terminal,
    options,
    putBudget<true>({ client: connect(terminal, options), path: { name }, body }),
  );
};

/** `svc-admin budgets delete`. */
export const deleteBudgetAction: Action<object> = async (terminal, options, name = "") => {
  await confirm(terminal, options, `Delete the budget ${name}`);
  await deleteBudget<true>({ client: connect(terminal, options), path: { name } });
};
