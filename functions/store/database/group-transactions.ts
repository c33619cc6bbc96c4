import { groupCalls } from "#kit/group-calls.ts";
import type { Database, Executor } from "./database.ts";
import { canRetryIndividually } from "./problem.ts";
import { planByIndex } from "./statements.ts";

/** Limits the calls that wait for a shared transaction or statement. */
export const tooManyWaiting = {
  max: 1_000,
  full: () =>
    Object.assign(new Error("too many calls wait for a transaction"), { code: "TOO_MANY_WAITING" }),
};

/**
 * Creates a function that runs concurrent calls in shared transactions (see `groupCalls`), one transaction at a time: for work that takes
 * the same lock, where a second transaction would only wait. A call resolves when its transaction commits; two calls of one key never share
 * one. A transaction waits for the current run of the event loop, whose calls join it, because a small transaction costs almost as much as
 * a large one. Its statements look up rows by key (see `planByIndex`). Unless the database is unavailable, retries each item of a failed
 * transaction on its own. Otherwise all calls fail, including those that wait, at most `tooManyWaiting.max`.
 */
export const groupTransactions = <Item, Result>(
  db: Database,
  work: {
    /** Returns the results in the order of `items`. */
    run(tx: Executor, items: readonly Item[]): Promise<readonly Result[]>;
    keyOf(item: Item): string;
    /** Reports whether a call may wait although `tooManyWaiting.max` others do, because it ends admitted work. */
    exempt?: (item: Item) => boolean;
  },
): ((item: Item) => Promise<Result>) =>
  groupCalls<Item, Result>({
    run: (items) =>
      db.transaction(async (tx) => {
        const [, results] = await Promise.all([planByIndex(tx), work.run(tx, items)]);
        return results;
      }),
    keyOf: work.keyOf,
    concurrency: 1,
    itemsMax: 128,
    waiting: { ...tooManyWaiting, exempt: work.exempt },
    gather: () => new Promise((resolve) => setImmediate(resolve)),
    isolate: canRetryIndividually,
  });
