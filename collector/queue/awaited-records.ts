/** Readers that wait for records beyond their place. */
export interface AwaitedRecords {
  /** Resolves when `wake` is called with a sequence above `sequence`; rejects with the signal's reason. */
  beyond(sequence: number, signal: AbortSignal): Promise<void>;
  /** The newest record has this sequence. */
  wake(lastSequence: number): void;
}

/** Nobody waits yet. */
export const createAwaitedRecords = (): AwaitedRecords => {
  let readers: { sequence: number; resolve(): void }[] = [];
  return {
    beyond: (sequence, signal) => {
      if (signal.aborted) return Promise.reject(signal.reason);
      const { promise, resolve, reject } = Promise.withResolvers<void>();
      const stop = () => {
        readers = readers.filter((other) => other !== reader);
        reject(signal.reason);
      };
      const reader = {
        sequence,
        resolve: () => {
          signal.removeEventListener("abort", stop);
          resolve();
        },
      };
      signal.addEventListener("abort", stop, { once: true });
      readers.push(reader);
      return promise;
    },
    wake: (lastSequence) => {
      const ready = readers.filter(({ sequence }) => sequence < lastSequence);
      if (ready.length === 0) return;
      readers = readers.filter(({ sequence }) => sequence >= lastSequence);
      for (const { resolve } of ready) resolve();
    },
  };
};
