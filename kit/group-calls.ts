/**
 * Invariants:
 * - At most `concurrency` runs at a time, each of at most `itemsMax` items.
 * - Two items of one key are never in one run nor in two concurrent runs, and keep their order.
 * - Every call settles exactly once. While every run fails as a whole, no call waits longer than for a pause and one run.
 */

/** The options of a group of calls. */
export interface GroupOptions<Item, Result> {
  /** Does the work of all `items`. Returns one result per item, in their order. */
  run(items: readonly Item[]): Promise<readonly Result[]>;
  keyOf(item: Item): string;
  concurrency: number;
  itemsMax: number;
  /**
   * Spaces the runs, so that more calls share one: after a run starts, the next one starts when this resolves, or when `itemsMax` calls wait.
   * The first call after a pause never waits.
   */
  pause?(): Promise<void>;
  /** Limits the calls that wait for a run: further ones reject with the error of `full`, unless `exempt` returns true for their item. */
  waiting?: { max: number; full(): Error; exempt?: ((item: Item) => boolean) | undefined };
  /**
   * Delays a run until it resolves, so that calls made meanwhile join the run: for work whose cost is more per run than per item. Without it the
   * calls of a run are fixed when it starts.
   */
  gather?(): Promise<void>;
  /**
   * Reports whether to retry each item on its own after this failure, so that one bad item fails alone. Otherwise items did not cause the
   * failure, and each further run would take as long to fail: the waiting calls fail too, unless another run succeeded meanwhile.
   */
  isolate(error: unknown): boolean;
}

interface Waiting<Item, Result> {
  item: Item;
  key: string;
  resolve(result: Result): void;
  reject(error: unknown): void;
}

const rejectAll = (calls: readonly Pick<Waiting<unknown, unknown>, "reject">[], error: unknown) => {
  for (const { reject } of calls) reject(error);
};

/**
 * Groups concurrent calls into shared runs: a call starts at once while fewer than `concurrency` runs are in flight, otherwise it joins
 * the next run. Without `pause` a single call waits for nothing but `gather`; under load the groups grow until the work keeps up.
 */
export const groupCalls = <Item, Result>(
  options: GroupOptions<Item, Result>,
): ((item: Item) => Promise<Result>) => {
  const { run, keyOf, concurrency, itemsMax, isolate, pause, gather, waiting: bound } = options;
  let waiting: Waiting<Item, Result>[] = [];
  const busy = new Set<string>();
  let running = 0;
  let pausing = false;
  let succeeded = 0;

  /** Removes the calls of the next run from `waiting`. */
  const takeBatch = (): Waiting<Item, Result>[] => {
    const batch: Waiting<Item, Result>[] = [];
    const remaining: Waiting<Item, Result>[] = [];
    const skipped = new Set<string>();
    for (const call of waiting) {
      if (batch.length < itemsMax && !busy.has(call.key) && !skipped.has(call.key)) {
        batch.push(call);
        busy.add(call.key);
      } else {
        remaining.push(call);
        skipped.add(call.key);
      }
    }
    waiting = remaining;
    return batch;
  };

  const settle = async (calls: readonly Waiting<Item, Result>[]) => {
    const succeededBefore = succeeded;
    try {
      const results = await run(calls.map((call) => call.item));
      if (results.length !== calls.length)
        throw new Error(`${results.length} results for ${calls.length} items`);
      succeeded += 1;
      results.forEach((result, index) => {
        calls[index]?.resolve(result);
      });
    } catch (error) {
      if (!isolate(error)) {
        const others = succeeded > succeededBefore ? [] : waiting.splice(0);
        rejectAll([...calls, ...others], error);
      } else if (calls.length === 1) rejectAll(calls, error);
      else for (const call of calls) await settle([call]);
    }
  };

  const runNext = async (batch?: readonly Waiting<Item, Result>[]) => {
    running += 1;
    if (gather) await gather();
    const calls = batch ?? takeBatch();
    if (calls.length > 0) await settle(calls);
    running -= 1;
    for (const call of calls) busy.delete(call.key);
    // If a run found no call, those that wait have the key of another run, whose end starts the next one.
    if (calls.length > 0) start();
  };

  const start = () => {
    while (
      running < concurrency &&
      waiting.length > 0 &&
      (!pausing || waiting.length >= itemsMax)
    ) {
      const batch = gather ? undefined : takeBatch();
      if (batch?.length === 0) return;
      if (pause && !pausing) {
        pausing = true;
        void pause().then(() => {
          pausing = false;
          start();
        });
      }
      void runNext(batch);
    }
  };

  return (item) =>
    new Promise((resolve, reject) => {
      if (bound && waiting.length >= bound.max && !bound.exempt?.(item)) throw bound.full();
      waiting.push({ item, key: keyOf(item), resolve, reject });
      start();
    });
};

/**
 * Shares one run among the calls of a key that arrive while it is in flight; the next call after it starts a new run. The run gets the arguments
 * of the call that started it.
 */
export const singleFlight = <Arguments extends unknown[], Result>(
  run: (...given: Arguments) => Promise<Result>,
  keyOf: (...given: Arguments) => string = () => "",
): ((...given: Arguments) => Promise<Result>) => {
  const running = new Map<string, Promise<Result>>();
  return (...given) => {
    const key = keyOf(...given);
    const shared = running.get(key) ?? run(...given).finally(() => running.delete(key));
    running.set(key, shared);
    return shared;
  };
};
