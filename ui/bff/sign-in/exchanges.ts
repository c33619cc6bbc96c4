/**
 * Bounds the code exchanges that callbacks cause. Anybody can send a callback, and a stalled provider answers none of them. When full,
 * aborts the oldest exchange. Invariants: at most one per attempt, 64 per address, 256 in all.
 */
import { addressKey } from "#kit/address.ts";

/** Identifies the callback. */
export interface ExchangeOwner {
  /** The attempt's `state`. */
  attempt: string;
  /** The direct remote address. Behind a proxy all people share it, so its limit is wide. */
  address: string;
}

/** Runs the exchanges of callbacks. */
export interface Exchanges {
  /** Returns the result of `work`. Throws `ExchangeEvicted` when a newer callback takes the slot. */
  run<Result>(owner: ExchangeOwner, work: () => Promise<Result>): Promise<Result>;
}

/** Reports that a newer exchange took the slot. */
export class ExchangeEvicted extends Error {
  override readonly name = "ExchangeEvicted";
}

interface Entry extends ExchangeOwner {
  evict(): void;
}

const perAddressMax = 64;
const totalMax = 256;

/** Creates the limit of one process. */
export const createExchanges = (): Exchanges => {
  /** In order of arrival. */
  const running = new Set<Entry>();

  const makeRoom = ({ attempt, address }: ExchangeOwner): void => {
    const entries = [...running];
    const sameAddress = entries.filter((entry) => entry.address === address);
    const oldest =
      entries.find((entry) => entry.attempt === attempt) ??
      (sameAddress.length >= perAddressMax ? sameAddress[0] : undefined) ??
      (entries.length >= totalMax ? largestGroup(entries)[0] : undefined);
    if (oldest === undefined) return;
    running.delete(oldest);
    oldest.evict();
  };

  return {
    run: async ({ attempt, address }, work) => {
      const { promise: evicted, reject } = Promise.withResolvers<never>();
      const evict = () => reject(new ExchangeEvicted("a newer callback took the slot"));
      const entry: Entry = { attempt, address: addressKey(address), evict };
      makeRoom(entry);
      running.add(entry);
      try {
        return await Promise.race([work(), evicted]);
      } finally {
        running.delete(entry);
      }
    },
  };
};

/** Returns the entries of the address that has most. */
const largestGroup = (entries: readonly Entry[]): Entry[] =>
  [...Map.groupBy(entries, ({ address }) => address).values()].reduce((largest, group) =>
    group.length > largest.length ? group : largest,
  );
