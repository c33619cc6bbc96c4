/**
 * Bounds the bytes of frames that are received and not yet committed, and of messages that are incomplete. Reading pauses while frames
 * fill three quarters of the limit, and of a host while its own fill a quarter: a few bytes of its blocks may be megabytes. What is already on
 * its way may fill the rest, and beyond it is rejected. Incomplete messages pause nothing: streams that wait for each other's rest would wait
 * for ever.
 */
export interface ByteBudget {
  /**
   * Returns undefined while frames, and those of this host, fill less than their parts of the limit; above, a promise that resolves when they
   * may, to ask again, or rejects with the reason of an aborted signal.
   */
  untilReadable(hostId: string, ...signals: AbortSignal[]): Promise<void> | undefined;
  /** Reserves bytes if they fit; returns false, reserving nothing, if they do not. */
  reserve(bytes: number, of?: "frame" | "incomplete", hostId?: string): boolean;
  /** Releases reserved bytes. */
  release(bytes: number, of?: "frame" | "incomplete", hostId?: string): void;
  /** Returns the reserved bytes. */
  used(): number;
}

/** Makes a budget of `bytesMax`. A frame larger than the whole budget fits when nothing else is reserved. */
export const createByteBudget = (bytesMax: number): ByteBudget => {
  const readableBelow = bytesMax * 0.75;
  const hostBelow = bytesMax * 0.25;
  const ofHosts = new Map<string, number>();
  let used = 0;
  let incomplete = 0;
  const waiting = new Set<() => void>();
  const addTo = (hostId: string, bytes: number) => {
    const bytesOfHost = (ofHosts.get(hostId) ?? 0) + bytes;
    if (bytesOfHost === 0) ofHosts.delete(hostId);
    else ofHosts.set(hostId, bytesOfHost);
  };
  return {
    untilReadable(hostId, ...signals) {
      if (used - incomplete < readableBelow && (ofHosts.get(hostId) ?? 0) < hostBelow)
        return undefined;
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
    reserve(bytes, of = "frame", hostId = "") {
      if (used > 0 && used + bytes > bytesMax) return false;
      used += bytes;
      if (of === "incomplete") incomplete += bytes;
      else if (hostId !== "") addTo(hostId, bytes);
      return true;
    },
    release(bytes, of = "frame", hostId = "") {
      used -= bytes;
      if (of === "incomplete") incomplete -= bytes;
      else if (hostId !== "") addTo(hostId, -bytes);
      if (used - incomplete >= readableBelow) return;
      for (const proceed of waiting) {
        waiting.delete(proceed);
        proceed();
      }
    },
    used: () => used,
  };
};

/** Reserves bytes of frames. Returns their release, which may be called again, or null if they do not fit. */
export const reserveOnce = (
  budget: Pick<ByteBudget, "reserve" | "release">,
  bytes: number,
): (() => void) | null => {
  if (!budget.reserve(bytes)) return null;
  let isReserved = true;
  return () => {
    if (isReserved) budget.release(bytes);
    isReserved = false;
  };
};
