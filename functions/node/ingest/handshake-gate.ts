/** Starts handshakes; see `createHandshakeGate`. */
export interface HandshakeGate {
  /**
   * Calls `start` now, or when its turn comes. Returns a function to call when the handshake has ended, or ends before it began; null, and
   * calls nothing, when too many wait.
   */
  enter(start: () => void): (() => void) | null;
}

/**
 * Creates a gate for the handshakes of all addresses together. A turn of the event loop then computes at most `atOnceMax` of them: when a
 * fleet reconnects at once, thousands in one turn would delay everything else by seconds, until calls to the database pass their deadline
 * and open streams end, whose hosts connect again too. A handshake that takes longer than `slowMs` waits for its client rather than
 * for the processor, and makes room for the next: slow clients cannot keep others out.
 */
export const createHandshakeGate = ({
  atOnceMax,
  slowMs,
  waitingMax,
}: {
  atOnceMax: number;
  slowMs: number;
  waitingMax: number;
}): HandshakeGate => {
  interface Entry {
    start(): void;
    /** Runs while the handshake has one of the places. */
    slow?: NodeJS.Timeout;
  }
  /** Earliest first. */
  const waiting = new Set<Entry>();
  let running = 0;
  const leave = (entry: Entry): void => {
    waiting.delete(entry);
    if (entry.slow === undefined) return;
    clearTimeout(entry.slow);
    delete entry.slow;
    running--;
    for (const next of waiting) {
      if (running >= atOnceMax) return;
      waiting.delete(next);
      begin(next);
    }
  };
  const begin = (entry: Entry): void => {
    running++;
    entry.slow = setTimeout(leave, slowMs, entry);
    entry.start();
  };
  return {
    enter(start) {
      const entry: Entry = { start };
      if (running < atOnceMax) begin(entry);
      else if (waiting.size < waitingMax) waiting.add(entry);
      else return null;
      return () => leave(entry);
    },
  };
};
