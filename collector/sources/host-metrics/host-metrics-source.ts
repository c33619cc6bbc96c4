import { hostname } from "node:os";
import { QueueClosedError, QueueFullError } from "../../queue/errors.ts";
import { createReportedFault } from "../../queue/reported-fault.ts";
import { version } from "../../version.ts";
import type { Source, SourceDependencies } from "../source.ts";
import { createReadHost, type HostReadings } from "./readings.ts";

/** The config of a `host_metrics` source (docs/collector-config.md). */
export interface HostMetricsSourceConfig {
  /** `host_metrics` unless given. */
  readonly name?: string;
  readonly intervalSeconds: number;
}

/** Already aborted, so that an append never waits for room. */
const withoutWaiting = AbortSignal.abort("the next reading replaces this one");

/**
 * Reads CPU, memory, disks, file systems and network of this host at the start and every `intervalSeconds`, and appends each reading as
 * one `otel_metric` envelope. Skips and counts a reading while the queue is full, since the next one contains the same counters: it
 * never takes room for which lossless sources wait.
 */
export const createHostMetricsSource = (
  config: HostMetricsSourceConfig,
  { append, refused, clock, log }: SourceDependencies,
  read: (at: number) => Promise<HostReadings> = createReadHost({ clock, log }),
): Source => {
  const { name = "host_metrics", intervalSeconds } = config;
  const host = { hostname: hostname(), collectorVersion: version };
  const stopping = new AbortController();
  let running: Promise<void> = Promise.resolve();
  let before: HostReadings | undefined;
  let stored = 0;
  let skipped = 0;
  let full = false;
  const fault = createReportedFault("source_failed", clock, `${name}: `);

  const store = async (readings: HostReadings): Promise<void> => {
    // Loaded on use: the library's descriptors would take a seventh of the start of a collector without this source.
    const { encodeHostMetrics } = await import("./metrics.ts");
    const payload = encodeHostMetrics(readings, before, host);
    before = readings;
    const record = {
      kind: "otel_metric",
      observedAtMs: readings.at,
      source: name,
      attributes: {},
      payload,
    };
    try {
      if ((await append([record], { signal: withoutWaiting })) === "stored") stored += 1;
      if (full) log.info({ source: name, skipped }, "host metrics are stored again");
      full = false;
    } catch (error) {
      if (error instanceof QueueClosedError) return;
      skipped += 1;
      refused("queue_full", { kind: record.kind, source: name, records: 1 });
      if (!(error instanceof QueueFullError))
        return log.error({ err: error, source: name }, "host metrics could not be stored");
      if (!full) log.warn({ source: name }, "the queue is full; host metrics are skipped");
      full = true;
    }
  };

  const run = async (): Promise<void> => {
    const { signal } = stopping;
    for (;;) {
      await clock.sleep(intervalSeconds * 1000, signal).catch(() => undefined);
      if (signal.aborted) return;
      try {
        await store(await read(clock.now()));
        fault.succeeded();
      } catch (error) {
        fault.failed(error);
        log.error({ err: error, source: name }, "host metrics could not be read");
      }
    }
  };

  return {
    name,
    start: async () => {
      await store(await read(clock.now()));
      running = run();
    },
    stop: async () => {
      stopping.abort(new Error("the source is stopping"));
      await running;
    },
    condition: fault.condition,
    counters: () => ({ stored, skipped }),
  };
};
