import type { Clock } from "../../../kit/clock.ts";
import type { Open } from "../../../proto/gen/svc/ingest/v1/ingest_pb.js";
import type { Database } from "../../store/database/database.ts";
import { endQueues, noteQueues } from "../../store/ingest/queues.ts";
import { viewKey } from "./queue-view.ts";

/** Notes in PostgreSQL the queues that were opened in the stream. */
export interface OpenedQueues {
  add(open: Open): void;
  /** Writes every second, until the signal aborts, then once more. */
  run(signal: AbortSignal): Promise<void>;
}

const intervalMs = 1_000;
const batchMax = 500;

/** Makes the notes. A core that is killed loses those of its last second; while PostgreSQL is unavailable they wait in memory, one for each queue. */
export const createOpenedQueues = ({
  db,
  clock,
  onError,
}: {
  db: Database;
  clock: Clock;
  onError(cause: unknown): void;
}): OpenedQueues => {
  const waiting = new Map<string, { open: Open; at: number }>();

  const writeSome = async (): Promise<void> => {
    const oldest = [...waiting].slice(0, batchMax);
    // One of each host: a statement cannot change a row twice.
    const batch = new Map(oldest.map((entry) => [entry[1].open.hostId, entry]));
    const at = new Date(Math.min(...[...batch.values()].map(([, { at }]) => at)));
    await db.transaction(async (tx) => {
      const opens = [...batch.values()].map(([, { open }]) => open);
      await noteQueues(tx, opens, at);
      for (const { hostId, leftQueues } of opens) {
        const left = leftQueues.map(({ queueId }) => queueId);
        if (left.length > 0) await endQueues(tx, hostId, left, { endedAt: at, ending: "succeeded" }, at);
      }
    });
    for (const [key, written] of batch.values()) if (waiting.get(key) === written) waiting.delete(key);
  };

  const write = async (): Promise<void> => {
    try {
      while (waiting.size > 0) await writeSome();
    } catch (cause) {
      onError(cause);
    }
  };

  return {
    add: (open) => void waiting.set(viewKey(open), { open, at: clock.now() }),
    async run(signal) {
      while (!signal.aborted) {
        await clock.sleep(intervalMs, signal).catch(() => undefined);
        await write();
      }
    },
  };
};
