import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from "prom-client";
import { singleFlight } from "#kit/group-calls.ts";
import type { Log } from "#kit/log.ts";
import type { DirectoryObserver, Observer } from "../core.ts";
import type { IngestObserver } from "../ingest/accept-frame.ts";
import type { CommitObserver } from "../ingest/committer.ts";
import type { PublishObserver } from "../ingest/nats-sink/publisher.ts";
import type { Figure } from "../ops/figures.ts";

/** Core's metrics, counted by prom-client in a registry of their own. */
export interface Metrics {
  observe: Observer;
  observeIngest: IngestObserver & CommitObserver;
  observeDirectory: DirectoryObserver;
  /** Adds the metrics of the sink that publishes to NATS. */
  observePublishes(): PublishObserver;
  /** Adds a gauge that `read` supplies at each scrape. */
  gauge(name: `core_${string}`, help: string, read: () => number): void;
  /** Adds a figure that is read at each scrape; scrapes that overlap share one read. */
  figure(figure: Figure): void;
  /** Returns the text that Prometheus scrapes, and its media type. */
  render(): Promise<{ type: string; content: string }>;
}

/** Seconds: from a cached response to the timeout of a statement, 30 s. */
const durationBuckets = [
  0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30,
];

/** Creates the metrics, with those of the process and of the event loop. Labels never hold a host (docs/operate.md). */
export const createMetrics = (log: Log): Metrics => {
  const registry = new Registry();
  const registers = [registry];
  collectDefaultMetrics({ register: registry });
  // Gauges with a counter's suffix, each the sum of `nodejs_active_*` by type.
  for (const name of ["handles", "requests", "resources"])
    registry.removeSingleMetric(`nodejs_active_${name}_total`);
  const requests = new Histogram({
    name: "core_http_request_duration_seconds",
    help: "Time from a request's head to its response's, by route pattern, method and status",
    labelNames: ["route", "method", "status"],
    buckets: durationBuckets,
    registers,
  });
  const enrollments = new Counter({
    name: "core_enroll_total",
    help: "Enrollments, by outcome: issued, retried, or the problem code of the refusal",
    labelNames: ["outcome"],
    registers,
  });
  const heartbeats = new Counter({
    name: "core_heartbeat_total",
    help: "Heartbeats, by outcome: admitted, or the problem code of the refusal",
    labelNames: ["outcome"],
    registers,
  });
  const watchMessages = new Counter({
    name: "core_watch_messages_total",
    help: "Attempts to send messages of watches, by receiver and outcome: delivered, failed, or dropped for good",
    labelNames: ["receiver", "outcome"],
    registers,
  });
  return {
    observeIngest: createIngestObserver(registers),
    observeDirectory: createDirectoryObserver(registers),
    observePublishes: () => createPublishObserver(registers),
    gauge: (name, help, read) => {
      const value: Gauge = new Gauge({ name, help, registers, collect: () => value.set(read()) });
    },
    figure: (figure) => addFigure(figure, registers, log),
    observe: {
      httpRequest: ({ route, method, status }, seconds) =>
        requests.observe({ route, method: known(method), status }, seconds),
      enroll: (outcome) => enrollments.inc({ outcome }),
      heartbeat: (outcome) => heartbeats.inc({ outcome }),
      ...createChatObserver(registers),
      watchMessage: (receiver, outcome) => watchMessages.inc({ receiver, outcome }),
    },
    render: singleFlight(async () => ({
      type: registry.contentType,
      content: await registry.metrics(),
    })),
  };
};

/** A figure that cannot be read loses its samples, never the whole scrape: that would hide the other metrics when they matter. */
const addFigure = ({ name, help, labels, read }: Figure, registers: Registry[], log: Log) => {
  const gauge: Gauge = new Gauge({
    name,
    help,
    labelNames: [...labels],
    registers,
    collect: async () => {
      gauge.reset();
      try {
        for (const { labels: values, value } of await read()) gauge.set(values, value);
      } catch (err) {
        log.warn({ metric: name, err }, "a metric cannot be read");
      }
    },
  });
};

const createChatObserver = (
  registers: Registry[],
): Pick<Observer, "chatTurn" | "chatToolCall" | "chatFirstEvent"> => {
  const turns = new Counter({
    name: "core_chat_turns_total",
    help: "Answers of chat that have ended, by outcome: complete, aborted, or the problem code of the failure",
    labelNames: ["outcome"],
    registers,
  });
  const toolCalls = new Counter({
    name: "core_chat_tool_calls_total",
    help: "Tool calls of chat, by tool and outcome: ok, aborted, failed, or the code of the error that the model received",
    labelNames: ["tool", "outcome"],
    registers,
  });
  const firstEvents = new Histogram({
    name: "core_chat_first_event_seconds",
    help: "Time from a question to the first output of the model",
    buckets: durationBuckets,
    registers,
  });
  return {
    chatTurn: (outcome) => turns.inc({ outcome }),
    chatToolCall: (tool, outcome) => toolCalls.inc({ tool, outcome }),
    chatFirstEvent: (seconds) => firstEvents.observe(seconds),
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
  const snapshotAt = new Gauge({
    name: "directory_snapshot_timestamp_seconds",
    help: "When a snapshot of the directory was last written, by any core; 0 for never",
    registers,
  });
  const absences = new Gauge({
    name: "directory_absences_held",
    help: "Active people whom the newest snapshot lacks, or has outside the domain, and who stay active for now",
    registers,
  });
  return {
    ended: (outcome) => {
      syncs.inc({ outcome });
      if (outcome === "refused" || outcome === "failed") failures.inc();
    },
    snapshot: ({ syncedAt, held }) => {
      snapshotAt.set((syncedAt ?? 0) / 1000);
      absences.set(held);
    },
  };
};

const createIngestObserver = (registers: Registry[]): IngestObserver & CommitObserver => {
  const total = (name: string, help: string) =>
    new Counter({ name: `core_ingest_${name}_total`, help, registers });
  const labelled = (name: string, help: string, label: string) =>
    new Counter({ name: `core_ingest_${name}_total`, help, labelNames: [label], registers });
  const frames = total("frames", "Frames committed; a resend of a committed frame counts nothing");
  const envelopes = total("envelopes", "Envelopes consumed: stored, discarded or rejected");
  const bytes = total("bytes", "Bytes of the frames committed");
  const discarded = total(
    "safe_raw_discarded",
    "Envelopes discarded because the discard list names their span, counted after the commit",
  );
  const rows = total("rows", "Rows written");
  const rejected = labelled("rejected", "Envelopes rejected, by code", "code");
  const refused = labelled("refused", "Frames and streams rejected, by reason", "reason");
  const gaps = total(
    "gaps",
    "Times that a collector had deleted acknowledged envelopes which the database lacks",
  );
  const lost = total(
    "gap_sequences",
    "Sequences in these gaps; those that never had an envelope count too",
  );
  const implausible = total(
    "implausible_gaps",
    "Claims of more lost envelopes than a host can have sent; added to no total",
  );
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
    gap: (sequences) => {
      gaps.inc();
      lost.inc(Number(sequences));
    },
    implausibleGap: () => implausible.inc(),
    batch: (facts) => {
      commits.observe(facts.seconds);
      rows.inc(facts.rows);
    },
  };
};

const createPublishObserver = (registers: Registry[]): PublishObserver => {
  const publishes = new Histogram({
    name: "core_ingest_nats_publish_seconds",
    help: "Time from a message's publish to the stream's acknowledgement",
    buckets: durationBuckets,
    registers,
  });
  const errors = new Counter({
    name: "core_ingest_nats_publish_errors_total",
    help: "Messages that the stream did not acknowledge, by code: stale, timeout, disconnected, no_responders, or the server's",
    labelNames: ["code"],
    registers,
  });
  return {
    published: (seconds) => publishes.observe(seconds),
    publishFailed: (code) => errors.inc({ code }),
  };
};

const knownMethods = new Set(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]);

/** Returns "other" for an unknown method: a caller must not choose the values of a label. */
const known = (method: string) => (knownMethods.has(method) ? method : "other");
