import { systemClock } from "../../../kit/clock.ts";
import { tabulateStored } from "../../../scripts/lab/tabulate-stored.ts";
import { waitUntil } from "../../../scripts/lab/wait-until.ts";
import type { EmbeddedDatabase } from "../../../scripts/postgres/embedded-database.ts";
import { createNumberedQueue, type NumberedQueue } from "../../support/numbered-queue.ts";

const envelopesPerSecond = 100;
const retryMs = 50;
const drainTimeoutMs = 60_000;

/** Hosts that send numbered envelopes at a steady rate over gRPC, and resend them after each failure. */
export interface NumberedLoad {
  queues: readonly NumberedQueue[];
  /** The times of each queue's acknowledgements, in ms of `performance.now()`. */
  ackTimes: readonly (readonly number[])[];
  /** Sends nothing new; resolves when everything is acknowledged, or after 60 s. */
  finish(): Promise<void>;
}

/** Starts to send from these hosts to core's ingest port. */
export const startNumberedLoad = async (
  hostIds: readonly string[],
  { port, caPem, client }: { port: number; caPem: string; client(id: string): Promise<{ cert: string; key: string }> },
): Promise<NumberedLoad> => {
  const startedAt = performance.now();
  let stoppedAt: number | undefined;
  let isAbandoned = false;
  const last = () =>
    5n * BigInt(Math.floor((((stoppedAt ?? performance.now()) - startedAt) / 5_000) * envelopesPerSecond));
  const ackTimes: number[][] = hostIds.map(() => []);
  const queues = await Promise.all(
    hostIds.map(async (hostId, index) => {
      const tls = { ...(await client(hostId)), ca: caPem };
      const onAck = () => void ackTimes[index]?.push(performance.now());
      return createNumberedQueue({ hostId, tls, last, isFinal: () => stoppedAt !== undefined, onAck });
    }),
  );
  const senders = queues.map(async (queue) => {
    while (!isAbandoned && !(stoppedAt !== undefined && queue.acked() >= last())) {
      await queue.connect(port).catch(() => undefined);
      await systemClock.sleep(retryMs);
    }
  });
  return {
    queues,
    ackTimes,
    async finish() {
      stoppedAt = performance.now();
      await Promise.race([Promise.all(senders), systemClock.sleep(drainTimeoutMs)]);
      isAbandoned = true;
    },
  };
};

/** The rows of a load in the database. */
export interface NumberedResult {
  acked: number;
  stored: number;
  /** Acknowledged, and not stored with its payload. */
  missing: number;
  /** Stored twice in one queue. */
  duplicates: number;
  /** Stored after an envelope of a higher sequence, or acknowledged backwards. */
  disordered: number;
}

/** Compares what was acknowledged with what is stored. */
export const checkStored = async (
  sql: EmbeddedDatabase["sql"],
  queues: readonly NumberedQueue[],
): Promise<NumberedResult> => {
  const total: NumberedResult = { acked: 0, stored: 0, missing: 0, duplicates: 0, disordered: 0 };
  await tabulateStored(sql);
  for (const { hostId, queueId, acked, violations } of queues) {
    const [row] = await sql<{ stored: number; distinct: number; kept: number; disordered: number }[]>`
      select count(*)::int as stored, count(distinct sequence)::int as distinct,
        count(distinct sequence) filter (where sequence <= ${String(acked())}::text::bigint
          and convert_from(payload, 'UTF8') = host_id || ' ' || sequence)::int as kept,
        count(*) filter (where highest > sequence)::int as disordered
      from (select *, max(sequence) over (order by xid, sequence rows between unbounded preceding and 1 preceding) as highest
        from (select * from stored_envelope where host_id = ${hostId} and queue_id = ${queueId} order by xid, sequence) as sorted) as numbered`;
    const { stored = 0, distinct = 0, kept = 0, disordered = 0 } = row ?? {};
    total.acked += Number(acked());
    total.stored += stored;
    total.missing += Number(acked()) - kept;
    total.duplicates += stored - distinct;
    total.disordered += disordered + violations.length;
  }
  return total;
};

/** Waits until each queue of `ackTimes` has an acknowledgement after `since`; resolves to when the last of them had, or to Infinity. */
export const untilAllAcked = async (
  ackTimes: NumberedLoad["ackTimes"],
  since: number,
  signal: AbortSignal,
): Promise<number> =>
  waitUntil(
    { what: "every queue is acknowledged", clock: systemClock, signal, timeoutMs: drainTimeoutMs },
    async () => {
      const next = ackTimes.map((times) => times[times.findLastIndex((at) => at <= since) + 1]);
      return next.every((at) => at !== undefined) ? Math.max(...next.map(Number)) : undefined;
    },
  ).catch(() => Number.POSITIVE_INFINITY);

/** Returns the longest time between two acknowledgements from `since` to `until`. */
export const longestPauseMs = (times: readonly number[], since: number, until: number): number => {
  let longest = 0;
  let previous = since;
  for (const at of [...times.filter((time) => time > since && time < until), until]) {
    longest = Math.max(longest, at - previous);
    previous = at;
  }
  return longest;
};
