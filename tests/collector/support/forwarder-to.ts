import { createConnector, createForwarder } from "#collector/forward/forwarder.ts";
import { systemClock } from "#kit/clock.ts";
import { systemEntropy } from "#kit/entropy.ts";
import { createTestLog } from "#tests/fakes/log.ts";

type Forwarding = Parameters<typeof createForwarder>[0];

/** Creates a collector's forwarder to core on a port of loopback, which connects again after `retryMs` at most. */
export const createForwarderTo = (
  core: { port: number; caPem: string },
  { cert, key }: { cert: string; key: string },
  options: Pick<Forwarding, "hostId" | "queue"> & Partial<Forwarding>,
  retryMs = 20,
) => {
  const tls = { cert, key, ca: core.caPem, serverName: "localhost" };
  return createForwarder({
    connect: createConnector(`127.0.0.1:${core.port}`, tls, systemClock),
    batch: { maxEnvelopes: 50, maxBytes: 1_048_576, lingerMs: 1 },
    maxInFlightFrames: 8,
    compression: "none",
    clock: {
      ...systemClock,
      sleep: (ms, signal) => systemClock.sleep(Math.min(ms, retryMs), signal),
    },
    entropy: systemEntropy,
    log: createTestLog(),
    ...options,
  });
};
