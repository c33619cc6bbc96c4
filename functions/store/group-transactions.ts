import { groupCalls } from "../kit/group-calls.ts";
import type { Database, Executor } from "./database.ts";
import { databaseProblem } from "./database-problem.ts";

/**
 * Does the work of concurrent calls in shared transactions (see `groupCalls`), one transaction at a time: for work that takes the
 * same lock anyway, where a second one would only wait for it with fewer calls. Each call resolves when its own is committed; two of
 * one key never share a transaction. A failure that is not the database's own fails alone: the others of its group are done again.
 */
export const groupTransactions = <Item, Result>(
  db: Database,
  work: {
    /** The results stand in the order of `items`. */
    run(tx: Executor, items: readonly Item[]): Promise<readonly Result[]>;
    keyOf(item: Item): string;
  },
): ((item: Item) => Promise<Result>) =>
  groupCalls<Item, Result>({
    run: (items) => db.transaction((tx) => work.run(tx, items)),
    keyOf: work.keyOf,
    concurrency: 1,
    itemsMax: 128,
    isolate: (error) => databaseProblem(error)?.code !== "database_unavailable",
  });
