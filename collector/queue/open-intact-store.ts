import type { AgeReading } from "./age.ts";
import { QueueDamagedError } from "./errors.ts";
import { countQuarantined, quarantine } from "./quarantine.ts";
import type { QueueOptions } from "./queue.ts";
import { openStore, type QueueStore } from "./store.ts";

/**
 * Opens the store of a queue; a damaged one is put aside first. Once: what is damaged anew at once is not the file's fault. Throws what
 * `openStore` does.
 */
export const openIntactStore = (options: QueueOptions, now: () => AgeReading): QueueStore => {
  const { dir, clock, entropy } = options;
  const fresh = () => ({ queueId: entropy.bytes(16), wallMs: clock.now(), quarantined: countQuarantined(dir) });
  try {
    return openStore(dir, fresh(), now);
  } catch (error) {
    if (!(error instanceof QueueDamagedError)) throw error;
    const folder = quarantine(dir);
    options.onQuarantined?.(folder, error.cause);
    return openStore(dir, fresh(), now);
  }
};
