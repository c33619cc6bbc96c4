/*
 * For what each host of a fleet needs once when it reconnects. Without a limit these transactions take every connection of the pool: heartbeats
 * and rechecks wait until they fail, and open streams end, whose hosts reconnect too.
 */
import { groupCalls } from "#kit/group-calls.ts";
import { Problem } from "../problems.ts";
import { canRetryIndividually, isLockTimeout } from "../store/database/problem.ts";

/** Options of both: two calls of one key never run at once. When the database is unavailable, those that wait fail too. */
const limits = {
  concurrency: 2,
  waiting: { max: 1_000, full: () => new Problem("overloaded") },
  // A row that another transaction holds concerns no other call.
  isolate: (error: unknown) => isLockTimeout(error) || canRetryIndividually(error),
};

/** Items of one transaction. */
const groupItemsMax = 64;

/**
 * Returns a call for one item that shares a transaction with others, of which two run at a time, each begun after the `pause` of the one
 * before: more items join it meanwhile. Each item of one that failed is retried on its own. Throws `overloaded` when a thousand wait.
 */
export const inGroups = <Item, Result>(
  run: (items: readonly Item[]) => Promise<readonly Result[]>,
  { keyOf, ...rest }: { keyOf(item: Item): string; pause?: (() => Promise<void>) | undefined },
): ((item: Item) => Promise<Result>) =>
  groupCalls({
    ...limits,
    run,
    keyOf,
    itemsMax: groupItemsMax,
    ...(rest.pause && { pause: rest.pause }),
  });

/** Returns `call`, two at a time, in their order. Throws `overloaded` when a thousand wait. */
export const inTurn = <Item, Result>(
  call: (item: Item) => Promise<Result>,
  keyOf: (item: Item) => string,
): ((item: Item) => Promise<Result>) =>
  groupCalls<Item, Result>({
    ...limits,
    run: (items) => Promise.all(items.map(call)),
    keyOf,
    itemsMax: 1,
  });
