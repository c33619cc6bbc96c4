import { groupCalls } from "../../kit/group-calls.ts";
import type { Database, Executor } from "./database.ts";
import { mayFareBetterAlone } from "./database-problem.ts";

/**
 * Does the work of concurrent calls in shared transactions (see `groupCalls`), one transaction at a time: for work that takes the
 * same lock anyway, where a second one would only wait for it with fewer calls. Each call resolves when its own is committed; two of
 * one key never share a transaction. Of a failure that is not the database being away, one part alone is to blame: all are done again, each by itself.
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
    isolate: mayFareBetterAlone,
  });
