import { systemClock } from "#kit/clock.ts";
import { tabulateStored } from "#scripts/lab/tabulate-stored.ts";
import { waitUntil } from "#scripts/lab/wait-until.ts";
import type { EmbeddedDatabase } from "#scripts/postgres/embedded-database.ts";
import { createNumberedQueue, type NumberedQueue } from "#tests/support/numbered-queue.ts";
import { type NamedDifferences, noDifferences } from "./named-differences.ts";

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
  {
    port,
    caPem,
    client,
  }: { port: number; caPem: string; client(id: string): Promise<{ cert: string; key: string }> },
) => {
  const startedAt = performance.now();
  let stoppedAt: number | undefined;
  let isAbandoned = false;
  const last = () =>
    5n *
    BigInt(
      Math.floor((((stoppedAt ?? performance.now()) - startedAt) / 5_000) * envelopesPerSecond),
    );
  const ackTimes: number[][] = hostIds.map(() => []);
  const queues = await Promise.all(
    hostIds.map(async (hostId, index) => {
      const tls = { ...(await client(hostId)), ca: caPem };
      const onAck = () => void ackTimes[index]?.push(performance.now());
      return createNumberedQueue({
        hostId,
        tls,
        last,
        isFinal: () => stoppedAt !== undefined,
        onAck,
      });
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

/** Compares what was acknowledged with what is stored. */
export const checkStored = async (
  sql: EmbeddedDatabase["sql"],
  queues: readonly NumberedQueue[],
  { lost, repeated }: NamedDifferences = noDifferences,
) => {
  const total = {
    acked: 0,
    stored: 0,
    /** Acknowledged, and not stored with its payload. */
    missing: 0,
    /** Stored twice in one queue. */
    duplicates: 0,
    /** Stored after an envelope of a higher sequence, or acknowledged backwards. */
    disordered: 0,
    /** Acknowledged, not stored, and reported by core. */
    lostReported: 0,
    /** Stored twice, and reported by core. */
    storedAgain: 0,
  };
  await tabulateStored(sql);
  for (const { hostId, queueId, acked, violations } of queues) {
    const named = [...(repeated.get(hostId) ?? [])].map((key) => key.split("-")[1] ?? "");
    const [row] = await sql`
      select count(*)::int as stored, count(distinct sequence)::int as distinct,
        (count(*) filter (where is_named) - count(distinct sequence) filter (where is_named))::int as again,
        count(distinct sequence) filter (where sequence <= ${String(acked())}::text::bigint
          and convert_from(payload, 'UTF8') = host_id || ' ' || sequence)::int as kept,
        count(*) filter (where highest > sequence and not is_named)::int as disordered
      from (select *, sequence::text in ${sql(["", ...named])} as is_named, max(sequence) over (order by xid, sequence rows between unbounded preceding and 1 preceding) as highest
        from (select * from stored_envelope where host_id = ${hostId} and queue_id = ${queueId} order by xid, sequence) as sorted) as numbered`;
    const { stored = 0, distinct = 0, kept = 0, disordered = 0, again = 0 } = row ?? {};
    const missing = Number(acked()) - kept;
    const reported = Math.min(missing, lost.get(hostId)?.size ?? 0);
    total.acked += Number(acked());
    total.stored += stored;
    total.missing += missing - reported;
    total.lostReported += reported;
    total.duplicates += stored - distinct - again;
    total.storedAgain += again;
    total.disordered += disordered + violations.length;
  }
  return total;
};

/** Waits until each queue of `ackTimes` has an acknowledgement after `since`; resolves to when the last of them had, or to Infinity. */
export const untilAllAcked = async (
  ackTimes: NumberedLoad["ackTimes"],
  since: number,
  signal: AbortSignal,
) =>
  waitUntil(
    { what: "every queue is acknowledged", clock: systemClock, signal, timeoutMs: drainTimeoutMs },
    async () => {
      const next = ackTimes.map((times) => times[times.findLastIndex((at) => at <= since) + 1]);
      return next.every((at) => at !== undefined) ? Math.max(...next.map(Number)) : undefined;
    },
  ).catch(() => Number.POSITIVE_INFINITY);

/** Returns the longest time between two acknowledgements from `since` to `until`. */
export const longestPauseMs = (times: readonly number[], since: number, until: number) => {
  let longest = 0;
  let previous = since;
  for (const at of [...times.filter((time) => time > since && time < until), until]) {
    longest = Math.max(longest, at - previous);
    previous = at;
  }
  return longest;
};
