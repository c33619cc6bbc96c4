import type { Clock } from "../../kit/clock.ts";
import type { Entropy } from "../../kit/entropy.ts";
import type { AgeReading } from "./age.ts";
import { QueueDamagedError } from "./errors.ts";
import { isDamage, type QueueOrigin, readRemains } from "./format.ts";
import { countQuarantined, quarantine } from "./quarantine.ts";
import { openStore, type QueueStore } from "./store.ts";

/** What the store of a queue needs to know. */
export interface RecoveringStoreOptions {
  dir: string;
  clock: Clock;
  entropy: Entropy;
  /** A damaged queue was found and put into `folder`; this one begins anew. */
  onQuarantined?(folder: string, cause: unknown): void;
}

/**
 * Opens the store of a queue, and keeps it usable: whenever its file turns out to be damaged, at first or later, it is put aside and a
 * new one goes on with what is known of the old: totals, checkpoints, and, for one that was open, queue id and sequences, so that whoever
 * uses the store need not know. What was to be done when the damage was found is done with the new one. Throws what `openStore` does,
 * and what the disk says while a file cannot be put aside; the next use tries again.
 */
export const openRecoveringStore = (
  options: RecoveringStoreOptions,
  now: () => AgeReading,
  onReplaced: () => void,
): QueueStore => {
  const { dir, clock, entropy } = options;
  /** Of the store that is damaged and not yet replaced. */
  let broken: { cause: unknown; origin: QueueOrigin } | undefined;

  const origin = (): QueueOrigin => ({
    queueId: entropy.bytes(16),
    nextSequence: 1,
    droppedRecords: 0,
    deadLetters: 0,
    ageMs: 0,
    wallMs: clock.now(),
    quarantined: countQuarantined(dir),
    quarantinedRecords: 0,
    checkpoints: [],
  });

  const openOrReplace = (): QueueStore => {
    try {
      return openStore(dir, origin, now);
    } catch (error) {
      if (!(error instanceof QueueDamagedError)) throw error;
      const { state, checkpoints } = readRemains(dir);
      const { droppedRecords = 0, deadLetters = 0, records = 0, quarantinedRecords = 0 } = state ?? {};
      const totals = { droppedRecords, deadLetters, quarantinedRecords: quarantinedRecords + records };
      return replace({ ...origin(), ...totals, checkpoints: checkpoints ?? [] }, error.cause);
    }
  };

  /** Once: what is damaged anew at once is not the file's fault. */
  const replace = (from: QueueOrigin, cause: unknown): QueueStore => {
    const folder = quarantine(dir);
    const replaced = openStore(dir, () => ({ ...from, quarantined: countQuarantined(dir) }), now);
    options.onQuarantined?.(folder, cause);
    return replaced;
  };

  let store = openOrReplace();

  const use = <Result>(act: (store: QueueStore) => Result): Result => {
    try {
      if (broken === undefined) return act(store);
    } catch (cause) {
      if (!isDamage(cause)) throw cause;
      const { records, quarantinedRecords, ...state } = store.state;
      const totals = { ...state, quarantinedRecords: quarantinedRecords + records };
      broken = { cause, origin: { ...totals, ...now(), checkpoints: store.allCheckpoints() } };
      store.close();
    }
    store = replace(broken.origin, broken.cause);
    broken = undefined;
    onReplaced();
    return act(store);
  };

  return {
    get state() {
      return store.state;
    },
    transaction: (change) => use(({ transaction }) => transaction(change)),
    read: (...bounds) => use(({ read }) => read(...bounds)),
    oldestAgeMs: () => use(({ oldestAgeMs }) => oldestAgeMs()),
    firstSequenceSince: (ageMs) => use(({ firstSequenceSince }) => firstSequenceSince(ageMs)),
    checkpoints: (source) => store.checkpoints(source),
    allCheckpoints: () => store.allCheckpoints(),
    close: () => {
      if (broken === undefined) store.close();
    },
  };
};
