/**
 * Bounds what requests hold in memory while they are read, those of all connections together: beyond the bound the one that began
 * first is given up, and the next, until there is room. So whoever begins requests and does not end them is the first to go, without a
 * timer for each.
 */
export interface Readings {
  /** A request begins; `giveUp` is called at most once, and not after `end`. */
  begin(giveUp: () => void): Reading;
}

/** One request that is being read. */
export interface Reading {
  /** So many more bytes of it are held. */
  add(bytes: number): void;
  /** It is whole, or nothing of it is held any more. */
  end(): void;
}

/** Makes the bound of one source. */
export const createReadings = (bytesMax: number): Readings => {
  /** In the order in which they began. */
  const open = new Set<{ bytes: number; giveUp(): void }>();
  let held = 0;
  return {
    begin: (giveUp) => {
      const own = { bytes: 0, giveUp };
      open.add(own);
      const end = (reading: typeof own) => {
        if (open.delete(reading)) held -= reading.bytes;
      };
      return {
        add: (bytes) => {
          if (!open.has(own)) return;
          own.bytes += bytes;
          held += bytes;
          for (const oldest of open) {
            if (held <= bytesMax) break;
            end(oldest);
            oldest.giveUp();
          }
        },
        end: () => end(own),
      };
    },
  };
};
