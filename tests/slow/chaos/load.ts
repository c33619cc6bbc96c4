import { createClient } from "@connectrpc/connect";
import { createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";
import { systemClock } from "#kit/clock.ts";
import { IngestService } from "#proto/gen/svc/ingest/v1/ingest_pb.js";
import { tabulateStored } from "#scripts/lab/tabulate-stored.ts";
import { waitUntil } from "#scripts/lab/wait-until.ts";
import type { EmbeddedDatabase } from "#scripts/postgres/embedded-database.ts";

/** A queue whose envelope N has the payload `<host> N`: it can resend any of them after any failure. */
type NumberedQueue = ReturnType<typeof createNumberedQueue>;

const envelopesOfFrame = 5;
const framesInFlight = 8;
const pollMs = 20;

/**
 * Creates a queue of one host. `last` returns how far it may send by now, in multiples of five. Unless that `isFinal`, it waits for more
 * after the last acknowledgement. Calls `onAck` at each one.
 */
const createNumberedQueue = (options: {
  hostId: string;
  tls: { cert: string; key: string; ca: string };
  last: () => bigint;
  isFinal?: () => boolean;
  onAck?: () => void;
}) => {
  const { hostId, tls, last, isFinal = () => true, onAck = () => undefined } = options;
  const queueId = crypto.getRandomValues(new Uint8Array(16));
  const violations: string[] = [];
  let acked = 0n;

  const advance = (what: string, to: bigint) => {
    if (to < acked) violations.push(`${hostId}: ${what} went from ${acked} back to ${to}`);
    acked = to;
  };
  const frameAfter = (previousSequence: bigint) => {
    const envelopes = Array.from({ length: envelopesOfFrame }, (_, index) => {
      const sequence = previousSequence + BigInt(index + 1);
      return {
        sequence,
        kind: "numbered",
        payload: new TextEncoder().encode(`${hostId} ${sequence}`),
      };
    });
    return {
      message: { case: "frame" as const, value: { hostId, queueId, previousSequence, envelopes } },
    };
  };

  const connect = async (port: number) => {
    const baseUrl = `https://localhost:${port}`;
    const sessionManager = new Http2SessionManager(baseUrl, {}, tls);
    const transport = createGrpcTransport({ baseUrl, sessionManager });
    const opened = Promise.withResolvers<bigint>();
    opened.promise.catch(() => undefined);
    let room = Promise.withResolvers<void>();
    let inFlight = 0;
    let isEnded = false;
    async function* send() {
      yield { message: { case: "open" as const, value: { hostId, queueId } } };
      let previous = await opened.promise;
      while (!isEnded && !(isFinal() && acked >= last())) {
        while (!isEnded && inFlight >= framesInFlight) await room.promise;
        if (previous < last()) {
          inFlight++;
          yield frameAfter(previous);
          previous += BigInt(envelopesOfFrame);
        } else await Promise.race([systemClock.sleep(pollMs), room.promise]);
      }
    }
    try {
      for await (const { message } of createClient(IngestService, transport).forward(send())) {
        if (message.case === "opened") {
          advance("the cursor", message.value.cursor);
          opened.resolve(message.value.cursor);
        } else if (message.case === "ack") {
          advance("an ack", message.value.ackedThrough);
          onAck();
          inFlight--;
          room.resolve();
          room = Promise.withResolvers();
        }
      }
    } finally {
      isEnded = true;
      opened.reject(new Error("disconnected"));
      room.resolve();
      sessionManager.abort();
    }
  };
  const expectRewind = () => {
    acked = 0n;
  };
  return {
    hostId,
    queueId,
    /** The highest sequence that core acknowledged. */
    acked: () => acked,
    /** Acks and cursors below an earlier ack, of which there must be none. */
    violations,
    /** Core's database is restored from a backup: the next cursor may be below an earlier ack. */
    expectRewind,
    /** Sends over one connection from core's cursor, until everything is acknowledged or the connection breaks. */
    connect,
  };
};

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
  };
  // On a slow machine, queues are still acknowledged while the table is made.
  const known = queues.map((queue) => ({ ...queue, acked: queue.acked() }));
  await tabulateStored(sql);
  for (const { hostId, queueId, acked, violations } of known) {
    const [row] = await sql`
      select count(*)::int as stored, count(distinct sequence)::int as distinct,
        count(distinct sequence) filter (where sequence <= ${String(acked)}::text::bigint
          and convert_from(payload, 'UTF8') = host_id || ' ' || sequence)::int as kept,
        count(*) filter (where highest > sequence)::int as disordered
      from (select *, max(sequence) over (order by xid, sequence rows between unbounded preceding and 1 preceding) as highest
        from (select * from stored_envelope where host_id = ${hostId} and queue_id = ${queueId} order by xid, sequence) as sorted) as numbered`;
    const { stored = 0, distinct = 0, kept = 0, disordered = 0 } = row ?? {};
    total.acked += Number(acked);
    total.stored += stored;
    total.missing += Number(acked) - kept;
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
