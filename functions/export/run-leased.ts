import type { Clock } from "../../kit/clock.ts";
import type { Log } from "../../kit/log.ts";
import type { Database } from "../store/database/database.ts";
import { countPendingOf } from "../store/export/lag.ts";
import {
  acquireExportLease,
  type ExportLease,
  ExportLeaseLost,
  ExportPositionElsewhere,
  exportLeaseMs,
  releaseExportLease,
  renewExportLease,
} from "../store/export/positions.ts";

/** The dependencies of a leased export. */
export interface LeasedOptions {
  db: Database;
  name: string;
  /** Unique to this process. */
  owner: string;
  clock: Pick<Clock, "monotonic" | "sleep">;
  log: Pick<Log, "info" | "warn">;
  stopping: AbortSignal;
  /** Why requests fail at present. */
  lastError(): string | null;
  /** Exports until `stopping` aborts, or at once ends when `signal` does. */
  run(lease: ExportLease, signal: AbortSignal): Promise<void>;
  observe: { active(isActive: boolean): void };
}

const retryMs = 1_000;
const renewMs = 1_500;
/** A stop waits so long for what is under way. */
export const drainMs = 5_000;

/**
 * Exports whenever this process has the lease of the name, until `stopping` aborts: of several processes one exports, and another one
 * continues at most `exportLeaseMs` after it was killed. A process that cannot renew its lease in time ends what it does before the lease
 * does. Failures of the database are logged, and it starts anew from the stored position. A lease whose end does not move while this process
 * watches for `exportLeaseMs` is over, whatever the database's clock says. Throws `ExportPositionElsewhere`.
 */
export const runLeased = async (options: LeasedOptions): Promise<void> => {
  const { db, name, owner, clock, log, stopping, observe } = options;
  let isWaiting = false;
  let reached: bigint | null = null;
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
        if (leftTimeline !== null) await logTimeline(options, { lease, leftTimeline, reached });
        log.info({ export: name, position: lease.position.toString() }, "exporting");
        observe.active(true);
        try {
          await runUnder(lease, options);
        } finally {
          observe.active(false);
          reached = lease.position;
          await releaseExportLease(db, lease).catch(() => undefined);
        }
      }
    } catch (err) {
      if (err instanceof ExportPositionElsewhere) throw err;
      log.warn(
        { export: name, err },
        err instanceof ExportLeaseLost ? "lease lost" : "export failed; starting anew",
      );
    }
    await clock.sleep(retryMs, stopping).catch(() => undefined);
  }
};

/**
 * Logs that the server was promoted or recovered, and how much is sent again. Its position is safe: it is in the same log as the rows, so a copy
 * that lacks some of them has an earlier one, and this process moved it only on the timeline that it had read.
 */
const logTimeline = async (
  { db, name, log }: LeasedOptions,
  {
    lease,
    leftTimeline,
    reached,
  }: { lease: ExportLease; leftTimeline: number; reached: bigint | null },
): Promise<void> => {
  const { envelopes } = await countPendingOf(db, lease);
  log.warn(
    {
      export: name,
      timeline: lease.identity?.timeline,
      was: leftTimeline,
      position: lease.position.toString(),
      ...(reached === null ? {} : { position_was: reached.toString() }),
      repeated_envelopes_max: envelopes,
    },
    "a standby was promoted or a backup recovered; exporting from the position that this server has",
  );
};

const runUnder = async (lease: ExportLease, options: LeasedOptions): Promise<void> => {
  const { db, clock, stopping } = options;
  const ended = new AbortController();
  const done = new AbortController();
  let renewedAt = clock.monotonic();
  const renew = async (): Promise<void> => {
    while (!done.signal.aborted) {
      await clock.sleep(renewMs, done.signal).catch(() => undefined);
      if (done.signal.aborted) return;
      const startedAt = clock.monotonic();
      try {
        await renewExportLease(db, lease, options.lastError());
        renewedAt = startedAt;
      } catch (cause) {
        if (
          cause instanceof ExportLeaseLost ||
          clock.monotonic() - renewedAt > exportLeaseMs - renewMs
        )
          ended.abort(
            cause instanceof ExportLeaseLost
              ? cause
              : new ExportLeaseLost("not renewed in time", { cause }),
          );
      }
    }
  };
  const drain = async (): Promise<void> => {
    await clock.sleep(drainMs, done.signal);
    ended.abort(new ExportLeaseLost("stopped before everything was delivered"));
  };
  const onStop = () => void drain().catch(() => undefined);
  stopping.addEventListener("abort", onStop, { once: true });
  const renewing = renew();
  try {
    await options.run(lease, ended.signal);
  } finally {
    done.abort();
    stopping.removeEventListener("abort", onStop);
    await renewing;
  }
};
