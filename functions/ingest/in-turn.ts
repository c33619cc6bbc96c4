import { groupCalls } from "../../kit/group-calls.ts";
import { Problem } from "../problems.ts";
import { canRetryIndividually } from "../store/database-problem.ts";

/** Calls that wait for their turn; their hosts back off when there are more. */
const waitingMax = 1_000;

/**
 * Returns `call`, at most `atOnceMax` at a time: for transactions that each host of a fleet needs once when it reconnects. Without it they
 * take every connection of the pool, heartbeats and rechecks wait until they fail, and open streams end, whose hosts reconnect too. Throws
 * `overloaded` when too many wait. When the database is unavailable, those that wait fail too.
 */
export const inTurn = <Item, Result>(
  call: (item: Item) => Promise<Result>,
  { atOnceMax, keyOf }: { atOnceMax: number; keyOf(item: Item): string },
): ((item: Item) => Promise<Result>) =>
  groupCalls<Item, Result>({
    run: (items) => Promise.all(items.map(call)),
    keyOf,
    concurrency: atOnceMax,
    itemsMax: 1,
    waiting: { max: waitingMax, full: () => new Problem("overloaded") },
    isolate: canRetryIndividually,
  });
