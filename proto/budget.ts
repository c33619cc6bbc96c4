/** Budgets: how many bytes core stores of a host in an hour (docs/volume.md). */
import * as v from "valibot";
import { Integer, IsoTimestamp, Text, TextUpTo } from "./values.ts";

/** The most budgets of a deployment: each is compared with the hosts of its filter every few seconds. */
export const budgetsMax = 20;

/** The smallest budget: a host must be able to send some frames. */
const budgetBytesMin = 1024 * 1024;

/** How long a core may take to notice that a host has sent its budget. */
export const budgetCheckSeconds = 5;

/** The name of a budget, which a path contains. */
export const BudgetName = v.pipe(
  Text,
  v.regex(
    /^[a-z0-9][a-z0-9._-]{0,63}$/,
    "must be 1 to 64 lowercase letters, digits, dots, dashes or underscores",
  ),
);

/** Body of `PUT /v1/collector/budgets/{name}`. */
export const BudgetBody = v.strictObject({
  /** A query of the language of `/fleet` by permanent facts of a host, not by its state; empty for every host. */
  filter: TextUpTo(4096),
  bytes_per_hour: Integer(budgetBytesMin, Number.MAX_SAFE_INTEGER),
});

/** Body of `PUT /v1/collector/budgets/{name}`. */
export type BudgetBody = v.InferOutput<typeof BudgetBody>;

/** A budget, and how many hosts it holds now. */
export const Budget = v.strictObject({
  name: v.string(),
  filter: v.string(),
  bytes_per_hour: v.number(),
  held_hosts: v.number(),
  changed_at: IsoTimestamp,
  changed_by_name: v.string(),
});

/** A budget, and how many hosts it holds now. */
export type Budget = v.InferOutput<typeof Budget>;

/** Response of `GET /v1/collector/budgets`, the smallest first: the smallest budget applies to a host of several. */
export const BudgetList = v.strictObject({ items: v.array(Budget) });

/** Response of `GET /v1/collector/budgets`. */
export type BudgetList = v.InferOutput<typeof BudgetList>;
