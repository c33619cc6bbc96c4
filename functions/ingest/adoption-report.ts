import { type AuditEntry, coreActor, recordAudit } from "../domain/audit/audit-log.ts";
import type { Database } from "../store/database/database.ts";
import { queueKey } from "../store/ingest/decide-batch.ts";
import type { PlacedQueue } from "./adopted-frames.ts";
import type { QueueEventNeeds } from "./queue-events.ts";

/** Receives facts about adopted objects. */
export interface AdoptionObserver {
  /** So many objects were adopted, could not be adopted whole, or were found to be damaged. */
  objects(outcome: "adopted" | "left" | "lost", objects: number): void;
  adopted(envelopes: number): void;
}

/** The results of an adoption, for the log, the audit log and the metrics. */
export type AdoptionReport = ReturnType<typeof createAdoptionReport>;

interface ReportNeeds extends Omit<QueueEventNeeds, "log"> {
  db: Database;
  observe: AdoptionObserver;
  log: Record<"info" | "warn" | "error", (fields: object, message: string) => void>;
}

const progressMs = 10_000;
/** Ranges of further queues are only counted. */
const rangesMax = 100_000;
/** So many lines of each kind are logged. */
const linesMax = 1_000;

/** A range of a queue that was adopted. */
interface AdoptedRange {
  host_id: string;
  queue_id: string;
  from: bigint;
  through: bigint;
  envelopes: number;
}

/** Creates the report of one adoption. */
export const createAdoptionReport = (needs: ReportNeeds) => {
  const { clock, log, observe } = needs;
  const ranges = new Map<string, AdoptedRange>();
  const hosts = new Set<string>();
  const total = { objects: 0, envelopes: 0, left: 0 };
  let loggedAt = clock.monotonic();
  const addRange = ({ queue, cursor }: PlacedQueue, envelopes: number) => {
    const key = queueKey(queue);
    const known = ranges.get(key);
    if (known) {
      known.through = queue.cursor;
      known.envelopes += envelopes;
    } else if (ranges.size < rangesMax)
      ranges.set(key, {
        host_id: queue.hostId,
        queue_id: queue.queueId.toHex(),
        from: cursor + 1n,
        through: queue.cursor,
        envelopes,
      });
    if (hosts.size < rangesMax) hosts.add(queue.hostId);
  };
  return {
    adopted(queues: readonly PlacedQueue[]): void {
      let envelopes = 0;
      for (const each of queues) {
        const some = envelopesAbove(each);
        addRange(each, some);
        envelopes += some;
      }
      total.objects++;
      total.envelopes += envelopes;
      observe.objects("adopted", 1);
      observe.adopted(envelopes);
    },
    /** Notes what is not adopted, and why. */
    left(fields: object, why: string): void {
      observe.objects("left", 1);
      if (total.left++ < linesMax) log.warn(fields, `not adopted: ${why}`);
    },
    /** Logs how far the adoption is, from time to time. */
    progress(): void {
      if (clock.monotonic() - loggedAt < progressMs) return;
      loggedAt = clock.monotonic();
      log.info(total, "core adopts telemetry from objects");
    },
    /** Logs and audits the results, if there are any. */
    async end(): Promise<void> {
      if (total.objects + total.left === 0) return;
      for (const range of [...ranges.values()].slice(0, linesMax))
        log.info(
          { ...range, from: String(range.from), through: String(range.through) },
          "a range of a queue was adopted",
        );
      const details = { ...total, hosts: hosts.size };
      log.warn(details, "telemetry was adopted from objects");
      await needs.db.transaction((tx) => recordAudit(tx, needs, entryOf(details)));
    },
  };
};

const entryOf = (details: Record<string, number>): AuditEntry => ({
  actor: coreActor,
  action: "ingest.adopt",
  target: { type: "database", id: "telemetry" },
  outcome: "success",
  details,
});

/** Names what an object has of a queue, for the log. */
export const describeQueuePart = ({ queue, cursor }: PlacedQueue) => ({
  host_id: queue.hostId,
  queue_id: queue.queueId.toHex(),
  cursor: String(cursor),
  from: String(queue.previousCursor + 1n),
  through: String(queue.cursor),
});

/** Counts the envelopes that a queue's part of an object has above its cursor, at most; a block that is cut counts whole. */
const envelopesAbove = ({ queue, cursor }: PlacedQueue): number =>
  queue.blocks
    .filter(({ lastSequence }) => lastSequence > cursor)
    .reduce((sum, { envelopes }) => sum + envelopes, 0);
