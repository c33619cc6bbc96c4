import { setTimeout as sleep } from "node:timers/promises";
import { createSeenRecorder, type SeenHost } from "#functions/store/fleet/statuses.ts";
import type { Clock } from "#kit/clock.ts";
import { quantile } from "#scripts/lab/quantile.ts";
import type { EmbeddedDatabase } from "#scripts/postgres/embedded-database.ts";
import { rounded } from "../support/bench.ts";

/** Stops the load, and returns what it wrote. */
export interface StatusLoad {
  /** Statuses that were recorded until now. */
  recorded(): number;
  stop(): Promise<StatusLoadFigures>;
}

/** The result of a load. */
export interface StatusLoadFigures {
  per_second: number;
  wanted_per_second: number;
  p99_ms: number;
}

const tickMs = 10;
const thresholds = { staleAfterSeconds: 180, enrollingSeconds: 900, returnSeconds: 96 };

/**
 * Records `perSecond` statuses of a seeded fleet until `stop`, with core's own statement, one a second, in this process as core does. The hosts
 * whose last heartbeat is recent report in a fixed order, far from each other in the table. Throws from `stop` when core would have asked
 * for a report.
 */
export const startStatusLoad = async (
  { db, sql }: Pick<EmbeddedDatabase, "db" | "sql">,
  { perSecond, clock, now }: { perSecond: number; clock: Pick<Clock, "now">; now: number },
): Promise<StatusLoad> => {
  const hosts = await sql<{ id: string; digest: string; lost: string; bytes: string }[]>`
    select identity_id as id, report_digest::text as digest, lost_records::text as lost, queue_bytes::text as bytes from fleet_status
    where last_heartbeat_at > ${new Date(now - 100_000).toISOString()}::timestamptz and revoked_from = 'infinity'
    order by md5(identity)`;
  const record = createSeenRecorder({ db, pause: () => sleep(1000) }, clock, thresholds);
  const stopping = new AbortController();
  const latencies: number[] = [];
  const failures: unknown[] = [];
  const inFlight = new Set<Promise<unknown>>();
  let sent = 0;
  const send = async (index: number) => {
    const host = hosts[index % hosts.length];
    if (host === undefined) throw new Error("no host has sent a heartbeat");
    const status: SeenHost = {
      identityId: host.id,
      seenAt: clock.now(),
      digest: BigInt(host.digest),
      subnet: "10.0.0.0/24",
      figures: {
        queueRecords: index % 1000,
        queueBytes: (Number(host.bytes) + 4096 * index) % 104_857_600,
        oldestRecordAgeSeconds: index % 60,
        droppedRecordsTotal: Number(host.lost),
        deadLetters: 0,
        lastAckAgeSeconds: index % 7,
        process: { rss_bytes: 8e7, cpu_ms: 1000 },
      },
    };
    const startedAt = performance.now();
    const { outcome } = await record(status);
    if (outcome !== "recorded") throw new Error(`a status of ${host.id}: ${outcome}`);
    latencies.push(performance.now() - startedAt);
  };
  const startedAt = performance.now();
  const running = (async () => {
    while (!stopping.signal.aborted) {
      const due = Math.floor(((performance.now() - startedAt) / 1000) * perSecond);
      while (sent < due) {
        const writing = send(sent++).catch((error: unknown) => failures.push(error));
        inFlight.add(writing);
        void writing.then(() => inFlight.delete(writing));
      }
      await sleep(tickMs);
    }
  })();
  return {
    recorded: () => latencies.length,
    stop: async () => {
      stopping.abort();
      await running;
      await Promise.all(inFlight);
      const seconds = (performance.now() - startedAt) / 1000;
      if (failures.length > 0) throw failures[0];
      return {
        per_second: rounded(latencies.length / seconds),
        wanted_per_second: perSecond,
        p99_ms: rounded(quantile(Float64Array.from(latencies), 0.99), 1),
      };
    },
  };
};
