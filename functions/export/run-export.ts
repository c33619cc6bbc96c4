import type { Clock } from "../../kit/clock.ts";
import type { Entropy } from "../../kit/entropy.ts";
import type { Log } from "../../kit/log.ts";
import type { ExportConfig } from "../config/export-config.ts";
import type { Database } from "../store/database/database.ts";
import type { ExportLease } from "../store/export/positions.ts";
import { createDelivery } from "./create-delivery.ts";
import type { ExportMetrics } from "./export-metrics.ts";
import type { OtlpClient } from "./otlp-client.ts";
import { pumpChunks } from "./pump-chunks.ts";
import { runLeased } from "./run-leased.ts";
import type { ClosableSource } from "./source.ts";

/** The dependencies of an export. */
export interface ExportNeeds {
  db: Database;
  config: ExportConfig;
  /** Unique to this process. */
  owner: string;
  client: Pick<OtlpClient, "send">;
  /** Opens the source behind the lease's position. */
  open(lease: ExportLease): Promise<ClosableSource>;
  clock: Clock;
  entropy: Entropy;
  log: Pick<Log, "info" | "warn">;
  stopping: AbortSignal;
  metrics: Pick<ExportMetrics, "observe" | "lastError">;
}

/** Exports from the sources to the backend whenever this process has the lease, until `stopping` aborts; see `runLeased` and `pumpChunks`. */
export const runExport = (needs: ExportNeeds): Promise<void> => {
  const { db, config, owner, clock, log, stopping, metrics } = needs;
  const run = async (lease: ExportLease, signal: AbortSignal): Promise<void> => {
    const source = await needs.open(lease);
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
  return runLeased({
    db,
    owner,
    clock,
    log,
    stopping,
    run,
    name: config.name,
    lastError: metrics.lastError,
    observe: metrics.observe,
  });
};
