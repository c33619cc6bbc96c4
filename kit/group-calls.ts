/**
 * Invariants: at most `concurrency` runs at a time, each of at most `itemsMax` items; two items of one key are never in one run nor
 * in two runs at once, and keep their order; every call settles exactly once; while every run fails as a whole, none waits longer than for a
 * pause and for one of them.
 */

/** The options of a group of calls. */
export interface GroupOptions<Item, Result> {
  /** Does the work of all `items`. Returns one result per item, in their order. */
  run(items: readonly Item[]): Promise<readonly Result[]>;
  keyOf(item: Item): string;
  concurrency: number;
  itemsMax: number;
  /**
   * Spaces the runs: after one starts, the next starts when this resolves, so that more calls share it, or with `itemsMax` calls. The first
   * call after a pause never waits.
   */
  pause?(): Promise<void>;
  /** Bounds the calls that wait for a run: further ones reject with the error of `full`, except those that `exempt` names. */
  waiting?: { max: number; full(): Error; exempt?: ((item: Item) => boolean) | undefined };
  /**
   * Delays a run until it resolves, and only then takes its calls: those made meanwhile join. For work that costs more by the run than by
   * the item. Without it a run takes its calls when it starts.
   */
  gather?(): Promise<void>;
  /**
   * Whether to retry each item on its own after this failure, so that one bad item fails alone. Otherwise the calls that wait fail too,
   * unless another run succeeded meanwhile: the failure is not one of items, and each further run would take as long to fail.
   */
  isolate(error: unknown): boolean;
}

interface Waiting<Item, Result> {
  item: Item;
  key: string;
  resolve(result: Result): void;
  reject(error: unknown): void;
}

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

  const take = (): Waiting<Item, Result>[] => {
    const taken: Waiting<Item, Result>[] = [];
    const left: Waiting<Item, Result>[] = [];
    const skipped = new Set<string>();
    for (const call of waiting) {
      if (taken.length < itemsMax && !busy.has(call.key) && !skipped.has(call.key)) {
        taken.push(call);
        busy.add(call.key);
      } else {
        left.push(call);
        skipped.add(call.key);
      }
    }
    waiting = left;
    return taken;
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
      if (calls.length > 1 && isolate(error)) for (const call of calls) await settle([call]);
      else if (isolate(error)) for (const call of calls) call.reject(error);
      else
        for (const call of [...calls, ...(succeeded > succeededBefore ? [] : waiting.splice(0))])
          call.reject(error);
    }
  };

  const runNext = async (taken?: readonly Waiting<Item, Result>[]) => {
    running += 1;
    if (gather) await gather();
    const calls = taken ?? take();
    if (calls.length > 0) await settle(calls);
    running -= 1;
    for (const call of calls) busy.delete(call.key);
    // A run that found no call leaves those that have the key of another run, whose end starts the next one.
    if (calls.length > 0) start();
  };

  const start = () => {
    while (
      running < concurrency &&
      waiting.length > 0 &&
      (!pausing || waiting.length >= itemsMax)
    ) {
      const taken = gather ? undefined : take();
      if (taken?.length === 0) return;
      if (pause && !pausing) {
        pausing = true;
        void pause().then(() => {
          pausing = false;
          start();
        });
      }
      void runNext(taken);
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
 * Shares one run among the calls of a key that arrive while it is in flight; the next call after it starts a new run. The arguments of
 * the call that started the run are used.
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
