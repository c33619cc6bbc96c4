import type { Clock } from "#kit/clock.ts";
import type { Entropy } from "#kit/entropy.ts";
import type { Log } from "#kit/log.ts";
import type { ExportConfig } from "../config/export-config.ts";
import type { Database } from "../store/database/database.ts";
import { countPendingOf } from "../store/export/lag.ts";
import {
  acquireExportLease,
  type ExportLease,
  ExportLeaseLost,
  exportLeaseMs,
  PositionOfOtherDatabase,
  releaseExportLease,
  renewExportLease,
} from "../store/export/positions.ts";
import { createDelivery } from "./create-delivery.ts";
import type { ExportMetrics } from "./export-metrics.ts";
import type { OtlpClient } from "./otlp-client.ts";
import { pumpChunks } from "./pump-chunks.ts";
import type { ExportSource } from "./source.ts";

/** The dependencies of an export. */
interface ExportNeeds {
  db: Database;
  config: ExportConfig;
  /** Unique to this process. */
  owner: string;
  client: Pick<OtlpClient, "send">;
  /** Opens the source behind the lease's position. */
  open(lease: ExportLease): ExportSource;
  clock: Clock;
  entropy: Entropy;
  log: Pick<Log, "info" | "warn" | "error">;
  stopping: AbortSignal;
  metrics: Pick<ExportMetrics, "observe" | "lastError">;
}

const retryMs = 1_000;
const renewMs = 1_500;
/** How long a stop waits for unfinished deliveries. */
const drainMs = 5_000;

/**
 * Exports from the sources to the backend whenever this process has the lease of the name, until `stopping` aborts: one of several processes
 * exports, and another one continues at most `exportLeaseMs` after it was killed. A process that cannot renew its lease in time stops before the
 * lease ends. After a failure of the database, logs it and restarts from the stored position. A lease whose end does not change for
 * `exportLeaseMs` is over, whatever the database's clock says. Throws `PositionOfOtherDatabase`.
 */
export const runExport = async (needs: ExportNeeds): Promise<void> => {
  const { db, config, owner, clock, log, stopping } = needs;
  const { name } = config;
  let isWaiting = false;
  let last: ExportLease | undefined;
  let seen: { until: string | undefined; at: number } | undefined;
  while (!stopping.aborted) {
    try {
      const isOver = seen !== undefined && clock.monotonic() - seen.at > exportLeaseMs;
      const acquired = await acquireExportLease(db, name, {
        owner,
        seenUntil: isOver ? seen?.until : undefined,
      });
      if (acquired.lease === null) {
        if (!isWaiting) log.info({ export: name }, "another process exports; waiting to take over");
        isWaiting = true;
        if (seen?.until !== acquired.heldUntil)
          seen = { until: acquired.heldUntil, at: clock.monotonic() };
      } else {
        isWaiting = false;
        seen = undefined;
        const { lease, leftTimeline } = acquired;
        await logTimeline(needs, { lease, leftTimeline, reached: last?.position });
        last = lease;
        await exportUnder(lease, needs);
      }
    } catch (err) {
      if (err instanceof PositionOfOtherDatabase) throw err;
      log.warn(
        { export: name, err },
        err instanceof ExportLeaseLost ? "lease lost" : "export failed; starting anew",
      );
    }
    await clock.sleep(retryMs, stopping).catch(() => undefined);
  }
};

/**
 * Logs that the server was promoted or recovered, if it was, and how much is sent again. The position is safe: it is in the same log as the
 * rows, so a copy that lacks some of them has an earlier position, and this process moved it only on the timeline that it had read.
 */
const logTimeline = async (
  { db, config, log }: ExportNeeds,
  {
    lease,
    leftTimeline,
    reached,
  }: { lease: ExportLease; leftTimeline: number | null; reached: bigint | undefined },
) => {
  if (leftTimeline === null) return;
  const { envelopes } = await countPendingOf(db, lease);
  log.warn(
    {
      export: config.name,
      timeline: lease.identity?.timeline,
      was: leftTimeline,
      position: lease.position.toString(),
      ...(reached === undefined ? {} : { position_was: reached.toString() }),
      repeated_envelopes_max: envelopes,
    },
    "a standby was promoted or a backup recovered; exporting from the position that this server has",
  );
};

const exportUnder = async (lease: ExportLease, needs: ExportNeeds) => {
  const { db, config, log, metrics } = needs;
  log.info({ export: config.name, position: lease.position.toString() }, "exporting");
  metrics.observe.active(true);
  try {
    await whileRenewed(lease, needs, (signal) => exportFrom(lease, needs, signal));
  } finally {
    metrics.observe.active(false);
    await releaseExportLease(db, lease).catch(() => undefined);
  }
};

const exportFrom = async (lease: ExportLease, needs: ExportNeeds, signal: AbortSignal) => {
  const { config, clock, stopping, metrics } = needs;
  const source = needs.open(lease);
  const delivery = createDelivery({ ...needs, observe: metrics.observe });
  try {
    await pumpChunks({
      source,
      deliverAll: delivery.deliverAll,
      lanes: config.concurrency,
      bufferBytesMax: config.bufferBytesMax,
      clock,
      stopping,
      signal,
      observe: {
        buffered: metrics.observe.buffered,
        committed: (outcome) => {
          delivery.committed(outcome);
          metrics.observe.committed(outcome);
        },
      },
    });
  } finally {
    source.close();
  }
};

/** Runs `work` and renews the lease meanwhile. Aborts its signal when the lease is lost, or `drainMs` after `stopping` has aborted. */
const whileRenewed = async (
  lease: ExportLease,
  { db, clock, stopping, metrics }: ExportNeeds,
  work: (signal: AbortSignal) => Promise<void>,
) => {
  const ended = new AbortController();
  const done = new AbortController();
  let renewedAt = clock.monotonic();
  const renew = async () => {
    while (!done.signal.aborted) {
      await clock.sleep(renewMs, done.signal).catch(() => undefined);
      if (done.signal.aborted) return;
      const startedAt = clock.monotonic();
      try {
        await renewExportLease(db, lease, metrics.lastError());
        renewedAt = startedAt;
      } catch (cause) {
        if (cause instanceof ExportLeaseLost) ended.abort(cause);
        else if (clock.monotonic() - renewedAt > exportLeaseMs - renewMs)
          ended.abort(new ExportLeaseLost("not renewed in time", { cause }));
      }
    }
  };
  const onStop = () =>
    void clock.sleep(drainMs, done.signal).then(
      () => ended.abort(new ExportLeaseLost("stopped before everything was delivered")),
      () => undefined,
    );
  stopping.addEventListener("abort", onStop, { once: true });
  const renewing = renew();
  try {
    await work(ended.signal);
  } finally {
    done.abort();
    stopping.removeEventListener("abort", onStop);
    await renewing;
  }
};
