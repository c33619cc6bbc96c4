import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from "prom-client";
import type { DirectoryObserver, Observer } from "../core.ts";
import type { IngestObserver } from "../ingest/accept-frame.ts";
import type { CommitObserver } from "../ingest/committer.ts";

/** Core's metrics, counted by prom-client in a registry of their own. */
export interface Metrics {
  observe: Observer;
  observeIngest: IngestObserver & CommitObserver;
  observeDirectory: DirectoryObserver;
  /** A figure that is read at each scrape. */
  gauge(name: `core_${string}`, help: string, read: () => number): void;
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
    help: "Enrollments, by outcome: issued, retried, or the code of the refusal",
    labelNames: ["outcome"],
    registers,
  });
  const heartbeats = new Counter({
    name: "core_heartbeat_total",
    help: "Heartbeats, by outcome: admitted, or the code of the refusal",
    labelNames: ["outcome"],
    registers,
  });
  return {
    observeIngest: createIngestObserver(registers),
    observeDirectory: createDirectoryObserver(registers),
    gauge: (name, help, read) => {
      const figure: Gauge = new Gauge({ name, help, registers, collect: () => figure.set(read()) });
    },
    observe: {
      httpRequest: ({ route, method, status }, seconds) =>
        requests.observe({ route, method: known(method), status }, seconds),
      enroll: (outcome) => enrollments.inc({ outcome }),
      heartbeat: (outcome) => heartbeats.inc({ outcome }),
    },
    render: async () => ({ type: registry.contentType, content: await registry.metrics() }),
  };
};

const createDirectoryObserver = (registers: Registry[]): DirectoryObserver => {
  const syncs = new Counter({
    name: "directory_sync_total",
    help: "Syncs of the directory that this core ran, by outcome: synced, held, refused, failed",
    labelNames: ["outcome"],
    registers,
  });
  const failures = new Counter({
    name: "directory_sync_failures_total",
    help: "Syncs of the directory that wrote nothing: failed and refused ones",
    registers,
  });
  const snapshot = new Gauge({
    name: "directory_snapshot_timestamp_seconds",
    help: "When a snapshot of the directory was last written, by any core; 0 for never",
    registers,
  });
  const absences = new Gauge({
    name: "directory_absences_held",
    help: "Active people whom the newest snapshot does not have, or not in the domain, and who are held",
    registers,
  });
  return {
    ended: (outcome) => {
      syncs.inc({ outcome });
      if (outcome === "refused" || outcome === "failed") failures.inc();
    },
    stands: ({ syncedAt, held }) => {
      snapshot.set((syncedAt ?? 0) / 1000);
      absences.set(held);
    },
  };
};

const createIngestObserver = (registers: Registry[]): IngestObserver & CommitObserver => {
  const total = (name: string, help: string) => new Counter({ name: `core_ingest_${name}_total`, help, registers });
  const labelled = (name: string, help: string, label: string) =>
    new Counter({ name: `core_ingest_${name}_total`, help, labelNames: [label], registers });
  const frames = total("frames", "Frames committed; a resend of a committed frame counts nothing");
  const envelopes = total("envelopes", "Envelopes consumed: stored, discarded and rejected ones");
  const bytes = total("bytes", "Bytes of the frames committed");
  const discarded = total(
    "safe_raw_discarded",
    "Envelopes discarded by the list of span names, counted after the commit",
  );
  const rows = total("rows", "Rows written");
  const rejected = labelled("rejected", "Envelopes set aside, by code", "code");
  const refused = labelled("refused", "Frames and streams refused, by reason", "reason");
  const commits = new Histogram({
    name: "core_ingest_commit_seconds",
    help: "Time of a group commit",
    buckets: durationBuckets,
    registers,
  });
  return {
    committed: (facts) => {
      frames.inc();
      envelopes.inc(facts.envelopes);
      bytes.inc(facts.bytes);
      if (facts.discarded > 0) discarded.inc(facts.discarded);
      for (const code of facts.rejected) rejected.inc({ code });
    },
    refused: (reason) => refused.inc({ reason }),
    batch: (facts) => {
      commits.observe(facts.seconds);
      rows.inc(facts.rows);
    },
  };
};

const knownMethods = new Set(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]);

/** A label whose values a caller chooses would grow without end. */
const known = (method: string): string => (knownMethods.has(method) ? method : "other");
