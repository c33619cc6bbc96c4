import { readFile } from "node:fs/promises";
import { type Clock, rfc3339 } from "../../functions/kit/clock.ts";
import type { Entropy } from "../../functions/kit/entropy.ts";
import { clockSkewMsMax } from "../../proto/management/proof.ts";
import { parseTimestamp } from "../../proto/management/text.ts";
import { writeDurably } from "../identity/private-files.ts";

/** Gives `sent_at` values that rise, also across restarts and when the clock is set back. */
export interface SentAt {
  /**
   * max(now, last + 1 ms), on disk before it is given. A last value that core cannot have accepted, being further ahead than the
   * skew it allows, does not count: else one start with the clock far ahead would silence this host until then.
   */
  next(): Promise<string>;
  /** Takes over what core knows as the last one. */
  adopt(lastSentAt: string): void;
}

/** A `SentAt` whose last value is kept in the file `path`: one for each purpose, one process at a time. */
export const createSentAt = (path: string, { clock, entropy }: { clock: Clock; entropy: Entropy }): SentAt => {
  let last: number | undefined;
  const load = async () => {
    const text = await readFile(path, "utf8").catch(() => "");
    return parseTimestamp(text.trim()) ?? 0;
  };
  return {
    next: async () => {
      const now = clock.now();
      last ??= await load();
      last = last > now + clockSkewMsMax ? now : Math.max(now, last + 1);
      const text = rfc3339(last);
      await writeDurably(path, `${text}\n`, { entropy });
      return text;
    },
    adopt: (lastSentAt) => {
      last = Math.max(last ?? 0, parseTimestamp(lastSentAt) ?? 0);
    },
  };
};
