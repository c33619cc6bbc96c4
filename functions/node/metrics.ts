import { Counter, collectDefaultMetrics, Histogram, Registry } from "prom-client";
import type { Observer } from "../core.ts";

/** Core's metrics, counted by prom-client in a registry of their own. */
export interface Metrics {
  observe: Observer;
  registry: Registry;
  /** The text that Prometheus scrapes, and its media type. */
  render(): Promise<{ type: string; content: string }>;
}

/** From a cached answer to the 30 s at which a statement is given up. */
const durationBuckets = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];

/** Makes the metrics, those of the process and of the event loop included. Labels never hold a host (contract, section 9). */
export const createMetrics = (): Metrics => {
  const registry = new Registry();
  const registers = [registry];
  collectDefaultMetrics({ register: registry });
  const requests = new Histogram({
    name: "core_http_request_duration_seconds",
    help: "Time from a request's head to its answer's, by route pattern, method and status",
    labelNames: ["route", "method", "status"],
    buckets: durationBuckets,
    registers,
  });
  const enrollments = new Counter({
    name: "core_enroll_total",
    help: "Enrollments, by outcome: enrolled, or the code of the refusal",
    labelNames: ["outcome"],
    registers,
  });
  const heartbeats = new Counter({
    name: "core_heartbeat_total",
    help: "Heartbeats, by outcome: accepted, or the code of the refusal",
    labelNames: ["outcome"],
    registers,
  });
  return {
    registry,
    observe: {
      httpRequest: ({ route, method, status }, seconds) =>
        requests.observe({ route, method: known(method), status }, seconds),
      enroll: (outcome) => enrollments.inc({ outcome }),
      heartbeat: (outcome) => heartbeats.inc({ outcome }),
    },
    render: async () => ({ type: registry.contentType, content: await registry.metrics() }),
  };
};

const knownMethods = new Set(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]);

/** A label whose values a caller chooses would grow without end. */
const known = (method: string): string => (knownMethods.has(method) ? method : "other");
