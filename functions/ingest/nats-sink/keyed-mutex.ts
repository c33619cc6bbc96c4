/** Creates what runs work by key: that of one key in the order of the calls, one at a time. */
export const createKeyedMutex = () => {
  /** One exists only while its key has work. */
  const tails = new Map<string, Promise<unknown>>();
  return {
    run<Result>(key: string, work: () => Promise<Result>): Promise<Result> {
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
    /** Resolves when nothing runs or waits. */
    async idle() {
      while (tails.size > 0) await Promise.all(tails.values());
    },
  };
};
