import type { Core } from "../core.ts";
import { endWaitingCopies } from "../store/ingest/copy-transaction.ts";

/** Longer than a committer waits for its own COPY. */
export const abandonedCopiesIntervalMs = 10_000;

/**
 * Creates a tick that ends the transactions of committers that wait for rows of a COPY and already did at the previous tick: their core, or
 * the network to it, has failed. PostgreSQL would keep them for hours, because none of its timeouts applies to a COPY, and they delay every
 * export. Compares observations, so that no clock matters. Returns undefined when it ended none.
 */
export const createCopyCleanup = ({
  db,
}: Pick<Core, "db">): (() => Promise<{ ended: number } | undefined>) => {
  let seen: readonly string[] = [];
  return async () => {
    const waiting = await endWaitingCopies(db, seen);
    seen = waiting.map(({ copy }) => copy);
    const ended = waiting.filter((copy) => copy.ended).length;
    return ended === 0 ? undefined : { ended };
  };
};
