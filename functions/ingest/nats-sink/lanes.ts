/** Runs work by key: that of one key in the order of the calls, one at a time. */
export interface Lanes {
  run<Result>(key: string, work: () => Promise<Result>): Promise<Result>;
  /** Resolves when nothing runs or waits. */
  idle(): Promise<void>;
}

/** Makes lanes; one exists only while it has work. */
export const createLanes = (): Lanes => {
  const lanes = new Map<string, Promise<unknown>>();
  return {
    run(key, work) {
      const before = lanes.get(key);
      const result = before ? before.then(work) : work();
      const settled: Promise<unknown> = result.then(
        () => undefined,
        () => undefined,
      );
      lanes.set(key, settled);
      void settled.then(() => {
        if (lanes.get(key) === settled) lanes.delete(key);
      });
      return result;
    },
    async idle() {
      while (lanes.size > 0) await Promise.all(lanes.values());
    },
  };
};
