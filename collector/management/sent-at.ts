import { readFile } from "node:fs/promises";
import { type Clock, rfc3339 } from "../../kit/clock.ts";
import type { Entropy } from "../../kit/entropy.ts";
import { clockSkewMsMax } from "../../proto/management/proof.ts";
import { parseTimestamp } from "../../proto/management/text.ts";
import { writeDurably } from "../files/private-files.ts";

/** Gives `sent_at` values that rise, also across restarts and when the clock is set back. */
export interface SentAt {
  /**
   * max(now, last + 1 ms), on disk before it is given; on a disk that cannot be written it is given all the same, since a heartbeat
   * must tell of that disk, and core names the last one when a later process has forgotten it. A last value that core cannot have accepted, being further ahead than the
   * skew it allows, does not count: else one start with the clock far ahead would silence this host until then.
   */
  next(): Promise<string>;
  /** Takes over what core knows as the last one. */
  adopt(lastSentAt: string): void;
  /** Follows core's clock, which says `serverTime` now, instead of this host's, until told anew. */
  follow(serverTime: string): void;
  /** By how much this host's clock is ahead of the one that is followed; 0 if it is its own. */
  skewSeconds(): number;
}

/** A `SentAt` whose last value is kept in the file `path`: one for each purpose, one process at a time. */
export const createSentAt = (path: string, { clock, entropy }: { clock: Clock; entropy: Entropy }): SentAt => {
  let last: number | undefined;
  let aheadMs = 0;
  const load = async () => {
    const text = await readFile(path, "utf8").catch(() => "");
    return parseTimestamp(text.trim()) ?? 0;
  };
  return {
    next: async () => {
      const now = clock.now() + aheadMs;
      last ??= await load();
      last = last > now + clockSkewMsMax ? now : Math.max(now, last + 1);
      const text = rfc3339(last);
      await writeDurably(path, `${text}\n`, { entropy }).catch(() => undefined);
      return text;
    },
    adopt: (lastSentAt) => {
      last = Math.max(last ?? 0, parseTimestamp(lastSentAt) ?? 0);
    },
    skewSeconds: () => Math.round(-aheadMs / 1000),
    follow: (serverTime) => {
      const time = parseTimestamp(serverTime);
      if (time !== undefined) aheadMs = time - clock.now();
    },
  };
};
