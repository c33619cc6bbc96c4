import { Counter, Gauge, Registry } from "prom-client";
import type { DeliveryObserver } from "./create-delivery.ts";
import type { PumpOptions } from "./pump-chunks.ts";

/** The metrics of an exporter, and what they observe. */
export type ExportMetrics = ReturnType<typeof createExportMetrics>;

type ExportObserver = Omit<DeliveryObserver, "partial"> &
  PumpOptions["observe"] & { active(isActive: boolean): void };

/** Creates the metrics of this process (docs/export.md). Each core reports the lag of an export, whichever process exports. */
export const createExportMetrics = () => {
  const registry = new Registry();
  const registers = [registry];
  const counter = (name: string, help: string, labelNames: string[] = []) =>
    new Counter({ name: `export_${name}_total`, help, labelNames, registers });
  const gauge = (name: string, help: string) =>
    new Gauge({ name: `export_${name}`, help, registers });
  const requests = counter(
    "requests",
    "Requests to the backend: accepted, retry, rejected, refused",
    ["outcome"],
  );
  const envelopes = counter("envelopes", "Envelopes delivered");
  const rejected = counter(
    "rejected_items",
    "Spans, log records and data points rejected in accepted requests",
  );
  const deadLetters = counter("dead_letters", "Envelopes that the backend rejected for good");
  const dropped = counter(
    "dropped_envelopes",
    "Envelopes that it rejected and whose hosts have their share of dead letters",
  );
  const buffered = gauge("buffered_bytes", "Payloads in memory");
  const active = gauge("active", "Whether this process exports, and does not wait to take over");
  let lastError: string | null = null;
  let isActive = false;
  const observe: ExportObserver = {
    request: (outcome) => requests.inc({ outcome }),
    state: (reason) => (lastError = reason),
    buffered: (bytes) => buffered.set(bytes),
    committed: (outcome) => {
      envelopes.inc(outcome.exported);
      rejected.inc(outcome.rejectedItems);
      deadLetters.inc(outcome.deadLetters.length);
      dropped.inc(outcome.dropped.length);
    },
    active: (now) => {
      isActive = now;
      active.set(now ? 1 : 0);
    },
  };
  return {
    observe,
    /** Why requests currently fail; null while they succeed. */
    lastError: () => lastError,
    isActive: () => isActive,
    render: async (): Promise<{ type: string; content: string }> => ({
      type: registry.contentType,
      content: await registry.metrics(),
    }),
  };
};
