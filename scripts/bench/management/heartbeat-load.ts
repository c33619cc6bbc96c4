import { setTimeout as sleep } from "node:timers/promises";
import { createHeartbeatWriter } from "../../../functions/store/fleet/heartbeats.ts";
import { healthReportOf } from "../../../functions/store/fleet/reports.ts";
import type { Clock } from "../../../kit/clock.ts";
import type { HeartbeatRequest } from "../../../proto/management/heartbeat.ts";
import { quantile } from "../../lab/quantile.ts";
import type { EmbeddedDatabase } from "../../postgres/embedded-database.ts";
import { rounded } from "../support/bench.ts";

/** Stops the load, and returns what it wrote. */
export interface HeartbeatLoad {
  stop(): Promise<HeartbeatFigures>;
}

/** The result of a load. */
export interface HeartbeatFigures {
  per_second: number;
  wanted_per_second: number;
  p99_ms: number;
}

const tickMs = 10;
const thresholds = { staleAfterSeconds: 180, enrollingSeconds: 900, returnSeconds: 96 };

/**
 * Writes `perSecond` heartbeats of a seeded fleet until `stop`, with core's own statements and groups, in this process as core does. The
 * hosts whose last heartbeat is recent report in a fixed order, far from each other in the table, each with the values of its last report
 * but the queue. Throws from `stop` when core would have rejected one.
 */
export const startHeartbeatLoad = async (
  { db, sql }: Pick<EmbeddedDatabase, "db" | "sql">,
  { perSecond, clock, now }: { perSecond: number; clock: Pick<Clock, "now">; now: number },
): Promise<HeartbeatLoad> => {
  const hosts = await sql<{ identity: string; fingerprint: string; report: HeartbeatRequest }[]>`
    select i.identity, encode(c.fingerprint_sha256, 'hex') as fingerprint, json_build_object('boot_id', h.boot_id,
      'collector', json_build_object('version', h.collector_version, 'commit', h.collector_commit, 'hostname', h.hostname,
        'platform', h.platform, 'started_at', h.started_at),
      'config', json_build_object('valid', h.config_valid, 'errors', h.config_errors, 'running_config_hash', h.running_config_hash,
        'desired_config_hash', h.desired_config_hash, 'last_known_good_config_hash', h.last_known_good_config_hash),
      'queue', json_build_object('records', h.queue_records, 'bytes', h.queue_bytes, 'max_bytes', h.queue_bytes_max,
        'oldest_record_age_seconds', null, 'dropped_records_total', h.dropped_records_total, 'dead_letters', h.dead_letters,
        'forks_total', h.queue_forks, 'at_risk', h.queue_at_risk or h.dropped_since_previous),
      'forwarder', json_build_object('connected', h.forwarder_connected, 'last_ack_at', h.forwarder_last_ack_at,
        'last_error', h.forwarder_last_error),
      'renewal', json_build_object('status', h.renewal_status, 'last_attempt_at', null, 'next_attempt_at', null,
        'last_error', h.renewal_last_error)) as report
    from collector_health h join collector_identity i on i.id = h.identity_id join certificate c on c.id = h.certificate_id
    where h.last_heartbeat_at > ${new Date(now - 100_000).toISOString()}::timestamptz and i.revoked_at is null and c.status = 'active'
    order by md5(i.identity)`;
  const write = createHeartbeatWriter({ db }, clock, thresholds);
  const stopping = new AbortController();
  const latencies: number[] = [];
  const failures: unknown[] = [];
  const inFlight = new Set<Promise<unknown>>();
  let sent = 0;
  const send = async (index: number) => {
    const host = hosts[index % hosts.length];
    if (host === undefined) throw new Error("no host has sent a heartbeat");
    const { identity, fingerprint, report } = host;
    report.queue.bytes = (report.queue.bytes + 4096) % report.queue.max_bytes;
    const use = { fingerprintSha256: fingerprint, sentAt: clock.now(), expired: false };
    const startedAt = performance.now();
    const { outcome } = await write({ identity, use, report: healthReportOf(report), labels: null });
    if (outcome !== "admitted") throw new Error(`a heartbeat of ${identity} was ${outcome}`);
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
