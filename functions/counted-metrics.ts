/**
 * The metrics that core counts as things happen: each declared here once, with its help and labels. What counts, what Prometheus scrapes and the
 * table of docs/operate.md derive from it. Labels never hold a host.
 */

interface CountedMetric {
  kind: "counter" | "seconds" | "gauge";
  name: string;
  help: string;
  labels: readonly string[];
}

const metric = <const Metric extends CountedMetric>(metric: Metric): Metric => metric;
const counter = <const Labels extends readonly string[]>(
  name: string,
  help: string,
  ...labels: Labels
) => metric({ kind: "counter", name, help, labels });
/** A histogram of durations. */
const seconds = <const Labels extends readonly string[]>(
  name: string,
  help: string,
  ...labels: Labels
) => metric({ kind: "seconds", name, help, labels });
const gauge = (name: string, help: string) => metric({ kind: "gauge", name, help, labels: [] });

/** The metrics that routes and jobs count. */
const observed = {
  httpRequest: seconds(
    "core_http_request_duration_seconds",
    "requests by route pattern",
    "route",
    "method",
    "status",
  ),
  enroll: counter(
    "core_enroll_total",
    "enrollments: `issued`, `retried`, or the refusal's code",
    "outcome",
  ),
  heartbeat: counter(
    "core_heartbeat_total",
    "heartbeats: `admitted`, or the refusal's code",
    "outcome",
  ),
  chatTurn: counter(
    "core_chat_turns_total",
    "answers of chat: `complete`, `aborted`, or the failure's code",
    "outcome",
  ),
  chatToolCall: counter(
    "core_chat_tool_calls_total",
    "tool calls of chat: `ok`, `aborted`, `failed`, or the error's code",
    "tool",
    "outcome",
  ),
  chatFirstEvent: seconds(
    "core_chat_first_event_seconds",
    "time from a question to the model's first output",
  ),
  watchMessage: counter(
    "core_watch_messages_total",
    "attempts to send messages of watches: `delivered`, `failed`, `dropped`",
    "receiver",
    "outcome",
  ),
};

/** Every counted metric, by the name that the code uses. */
export const countedMetrics = {
  ...observed,
  frames: counter("core_ingest_frames_total", "frames committed; resends count nothing"),
  bytes: counter("core_ingest_bytes_total", "bytes of the frames committed"),
  envelopes: counter("core_ingest_envelopes_total", "envelopes stored, discarded or rejected"),
  rows: counter("core_ingest_rows_total", "rows written"),
  discarded: counter(
    "core_ingest_safe_raw_discarded_total",
    "envelopes discarded by span name, after the commit",
  ),
  rejected: counter(
    "core_ingest_rejected_total",
    "envelopes rejected, such as `payload_too_large`",
    "code",
  ),
  refused: counter("core_ingest_refused_total", "frames and streams rejected", "reason"),
  gaps: counter(
    "core_ingest_gaps_total",
    "ranges that a restored database or the object store lost",
  ),
  gapSequences: counter("core_ingest_gap_sequences_total", "sequences in these ranges"),
  implausibleGaps: counter(
    "core_ingest_implausible_gaps_total",
    "claims of more loss than a host can have sent",
  ),
  commit: seconds("core_ingest_commit_seconds", "duration of a group commit"),
  objectWrite: seconds(
    "core_ingest_object_write_seconds",
    "time to write an object: `written` or `failed`",
    "outcome",
  ),
  objects: counter(
    "core_ingest_objects_total",
    "objects `adopted`, `left` out of an adoption, or `lost`",
    "outcome",
  ),
  adopted: counter("core_ingest_adopted_envelopes_total", "envelopes adopted from objects"),
  inFlightBytes: gauge("core_ingest_in_flight_bytes", "uncommitted bytes, at most 64 MiB"),
  openStreams: gauge("core_ingest_open_streams", "open streams of Forward"),
  directorySync: counter(
    "directory_sync_total",
    "syncs of this core: `synced`, `held`, `refused`, `failed`",
    "outcome",
  ),
  directorySyncFailure: counter("directory_sync_failures_total", "syncs that wrote nothing"),
  directorySnapshot: gauge(
    "directory_snapshot_timestamp_seconds",
    "when any core last wrote a snapshot; 0 for never",
  ),
  directoryAbsences: gauge(
    "directory_absences_held",
    "active people missing from the newest snapshot or domain",
  ),
  databaseConnections: gauge("core_database_connections", "open connections of core's pools"),
  databaseConnectionsMax: gauge(
    "core_database_connections_max",
    "connections that core's pools open at most",
  ),
};

type Values<Labels extends readonly string[]> = { [Label in keyof Labels]: string };

/** Counts one, or `value`, which of a histogram are seconds and of a gauge its new value. */
type Recorder<Metric extends CountedMetric> = (
  ...args: Metric["kind"] extends "counter"
    ? [...labels: Values<Metric["labels"]>, value?: number]
    : [...labels: Values<Metric["labels"]>, value: number]
) => void;

/** A function for each metric, which takes the values of its labels in their order. */
export type Recorders<Metrics extends Record<string, CountedMetric> = typeof countedMetrics> = {
  [Name in keyof Metrics]: Recorder<Metrics[Name]>;
};

/** Counts what routes and jobs do. */
export type Observer = Recorders<typeof observed>;

/** Counts nothing. */
export const unobserved = Object.fromEntries(
  Object.keys(observed).map((name) => [name, () => undefined]),
) as unknown as Observer;

/** The names of the gauges. */
export type GaugeName = {
  [Name in keyof typeof countedMetrics]: (typeof countedMetrics)[Name]["kind"] extends "gauge"
    ? Name
    : never;
}[keyof typeof countedMetrics];
