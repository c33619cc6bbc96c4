import type { Client } from "pg";
import { addStoredCounts } from "#functions/store/ingest/commit-batch.ts";
import type { EnvelopeRun } from "#functions/store/ingest/envelope-run.ts";
import { HourCounts } from "#functions/store/ingest/hours.ts";
import type { Clock } from "#kit/clock.ts";
import { createCopyConnections } from "../copy-connections.ts";

const intervalMs = 1_000;
const deadlineMs = 5_000;

/** Counts stored envelopes for PostgreSQL; see `createStoredCounts`. */
export type StoredCounts = ReturnType<typeof createStoredCounts>;

/**
 * Counts for PostgreSQL what the stream stored: `last_envelope_at` and the volume of each host. A core that is killed loses those
 * of its last second; while PostgreSQL is unavailable they wait in memory, one entry for each host and kind.
 */
export const createStoredCounts = ({
  connect,
  clock,
  onError,
}: {
  /** Opens a connection of `openCommitClient`. */
  connect(): Promise<Client>;
  clock: Clock;
  onError(cause: unknown): void;
}) => {
  const connections = createCopyConnections({ connect, clock, timeoutMs: deadlineMs });
  let hosts = new Map<string, number>();
  let hours = new HourCounts();

  const write = async () => {
    if (hosts.size === 0) return;
    const counted = { hosts, hours, now: clock.now() };
    hosts = new Map();
    hours = new HourCounts();
    try {
      await connections.run((client) => addStoredCounts(client, counted));
    } catch (cause) {
      // Newer timestamps and counts came meanwhile.
      for (const [host, at] of hosts) counted.hosts.set(host, at);
      counted.hours.addAll(hours);
      hosts = counted.hosts;
      hours = counted.hours;
      onError(cause);
    }
  };

  return {
    /** Counts envelopes that the stream has stored, by their kinds. */
    add: (host: string, kinds: EnvelopeRun["kinds"]) => hours.add(host, kinds),
    /** Notes that envelopes of a host were consumed, stored or not. */
    host(host: string) {
      hosts.set(host, clock.now());
    },
    /** Writes every second, until the signal aborts, then once more. */
    async run(signal: AbortSignal) {
      while (!signal.aborted) {
        await clock.sleep(intervalMs, signal).catch(() => undefined);
        await write();
      }
      await connections.close();
    },
  };
};
