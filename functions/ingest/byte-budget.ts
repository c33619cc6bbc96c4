/**
 * Bounds the bytes of frames that are received and not yet committed. Reading pauses from three quarters of the limit on; frames that
 * are already on their way may fill the rest, and beyond it they are rejected.
 */
export interface ByteBudget {
  /** Returns undefined below three quarters of the limit; above, a promise of that, which rejects with the reason of an aborted signal. */
  untilReadable(...signals: AbortSignal[]): Promise<void> | undefined;
  /** Reserves bytes if they fit; returns false, reserving nothing, if they do not. */
  reserve(bytes: number): boolean;
  /** Releases reserved bytes. */
  release(bytes: number): void;
  /** Returns the reserved bytes. */
  used(): number;
}

/** Makes a budget of `bytesMax`. A frame larger than the whole budget fits when nothing else is reserved. */
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
          waiting.delete(proceed);
          reject(signal.reason);
        };
        const proceed = () => {
          signal.removeEventListener("abort", stop);
          resolve();
        };
        waiting.add(proceed);
        signal.addEventListener("abort", stop, { once: true });
      });
    },
    reserve(bytes) {
      if (used > 0 && used + bytes > bytesMax) return false;
      used += bytes;
      return true;
    },
    release(bytes) {
      used -= bytes;
      if (used >= readableBelow) return;
      for (const proceed of waiting) {
        waiting.delete(proceed);
        proceed();
      }
    },
    used: () => used,
  };
};
