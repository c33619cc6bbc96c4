import type { PartialRejection } from "./deliver.ts";
import type { Apartness } from "./export-requests.ts";

/** Hosts of which a backend may have rejected items. */
export interface Suspects {
  apartOf(hostId: string): Apartness;
  note(rejected: PartialRejection): void;
}

/** So many envelopes of a host go apart after one that was rejected in part. */
const envelopesApart = 1_000;
const hostsMax = 10_000;

/**
 * Narrows down who sends what a backend rejects: an accepted request does not say which of its items were not, and must not be sent again. The
 * hosts of such a request go apart from others for a while, and one that is then alone in such a request has each envelope alone.
 */
export const createSuspects = (): Suspects => {
  const suspects = new Map<string, { apart: Apartness; left: number }>();
  return {
    apartOf(hostId) {
      const suspect = suspects.get(hostId);
      if (suspect === undefined) return "no";
      suspect.left -= 1;
      if (suspect.left <= 0) suspects.delete(hostId);
      return suspect.apart;
    },
    note({ envelopes }) {
      const hosts = new Set(envelopes.map(({ hostId }) => hostId));
      for (const hostId of hosts)
        if (suspects.size < hostsMax)
          suspects.set(hostId, {
            apart: hosts.size === 1 ? "envelope" : "host",
            left: envelopesApart,
          });
    },
  };
};
