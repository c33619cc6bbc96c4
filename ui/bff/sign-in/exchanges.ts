/**
 * What web asks of the provider for callbacks, bounded. Anybody can make a callback, and a provider that stalls answers none of them, so
 * whoever comes is never turned away for those who wait: the one that waits longest gives way. Invariants: one at a time of an attempt,
 * at most 64 of an address, at most 256 in all.
 */
import { addressKey } from "../../../kit/address.ts";

/** Whose callback it is. */
export interface Asker {
  /** The attempt's `state`. */
  attempt: string;
  /** The direct remote address: behind a proxy it is everybody's, so its bound is wide. */
  address: string;
}

/** Runs the exchanges of callbacks. */
export interface Exchanges {
  /** What `work` comes to. Throws `GaveWay`, and aborts the signal, when a newer one needs the place. */
  run<Result>(asker: Asker, work: (signal: AbortSignal) => Promise<Result>): Promise<Result>;
}

/** An exchange ended before its time, for a newer one. */
export class GaveWay extends Error {
  override readonly name = "GaveWay";
}

interface Entry extends Asker {
  stop: AbortController;
}

const ofAddressMax = 64;
const allMax = 256;

/** Makes the bound of one web. */
export const createExchanges = (): Exchanges => {
  /** The oldest first. */
  const running = new Set<Entry>();

  const makeRoom = ({ attempt, address }: Asker): void => {
    const entries = [...running];
    const ofAddress = entries.filter((entry) => entry.address === address);
    const oldest =
      entries.find((entry) => entry.attempt === attempt) ??
      (ofAddress.length >= ofAddressMax ? ofAddress[0] : undefined) ??
      (entries.length >= allMax ? mostCrowded(entries)[0] : undefined);
    if (oldest === undefined) return;
    running.delete(oldest);
    oldest.stop.abort(new GaveWay("a newer callback needed the place"));
  };

  return {
    run: async ({ attempt, address }, work) => {
      const entry: Entry = { attempt, address: addressKey(address), stop: new AbortController() };
      makeRoom(entry);
      running.add(entry);
      const { signal } = entry.stop;
      const gaveWay = new Promise<never>((_, reject) => {
        signal.addEventListener("abort", () => reject(signal.reason), { once: true });
      });
      try {
        return await Promise.race([work(signal), gaveWay]);
      } finally {
        running.delete(entry);
      }
    },
  };
};

/** The entries of the address that has most of them. */
const mostCrowded = (entries: readonly Entry[]): Entry[] =>
  [...Map.groupBy(entries, ({ address }) => address).values()].reduce((most, some) =>
    some.length > most.length ? some : most,
  );
