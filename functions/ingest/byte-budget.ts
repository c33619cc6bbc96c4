/**
 * Bounds what is taken in and not yet committed. Reading is held back from three quarters of the limit on; frames that were already
 * on their way may fill the rest, and beyond it they are refused.
 */
export interface ByteBudget {
  /** Undefined below three quarters of the limit; above, a promise of that, which rejects with the reason of an aborted signal. */
  untilReadable(...signals: AbortSignal[]): Promise<void> | undefined;
  /** Takes bytes if they fit; gives false, taking nothing, if they do not. */
  take(bytes: number): boolean;
  /** Gives bytes back. */
  give(bytes: number): void;
  /** Bytes taken. */
  used(): number;
}

/** Makes a budget of `bytesMax`. A single frame larger than the whole budget fits when nothing else is taken. */
export const createByteBudget = (bytesMax: number): ByteBudget => {
  const readableBelow = bytesMax * 0.75;
  let used = 0;
  const waiting = new Set<() => void>();
  return {
    untilReadable(...signals) {
      if (used < readableBelow) return undefined;
      const signal = AbortSignal.any(signals);
      return new Promise((resolve, reject) => {
        if (signal.aborted) return reject(signal.reason);
        const stop = () => {
          waiting.delete(go);
          reject(signal.reason);
        };
        const go = () => {
          signal.removeEventListener("abort", stop);
          resolve();
        };
        waiting.add(go);
        signal.addEventListener("abort", stop, { once: true });
      });
    },
    take(bytes) {
      if (used > 0 && used + bytes > bytesMax) return false;
      used += bytes;
      return true;
    },
    give(bytes) {
      used -= bytes;
      if (used >= readableBelow) return;
      for (const go of waiting) {
        waiting.delete(go);
        go();
      }
    },
    used: () => used,
  };
};
