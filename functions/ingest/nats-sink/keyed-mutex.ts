/** Runs work by key: that of one key in the order of the calls, one at a time. */
interface KeyedMutex {
  run<Result>(key: string, work: () => Promise<Result>): Promise<Result>;
  /** Resolves when nothing runs or waits. */
  idle(): Promise<void>;
}

/** Makes tails; one exists only while it has work. */
export const createKeyedMutex = (): KeyedMutex => {
  const tails = new Map<string, Promise<unknown>>();
  return {
    run(key, work) {
      const before = tails.get(key);
      const result = before ? before.then(work) : work();
      const settled: Promise<unknown> = result.then(
        () => undefined,
        () => undefined,
      );
      tails.set(key, settled);
      void settled.then(() => {
        if (tails.get(key) === settled) tails.delete(key);
      });
      return result;
    },
    async idle() {
      while (tails.size > 0) await Promise.all(tails.values());
    },
  };
};
