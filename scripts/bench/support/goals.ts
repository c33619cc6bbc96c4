/** A bound of a figure that a bench measures; docs/performance-goals.md is generated from these. */
export interface Goal {
  /** What is measured, in at most twelve words. */
  what: string;
  unit: string;
  bound: "≥" | "≤" | "<";
  value: number;
}

const goal =
  (bound: Goal["bound"]) =>
  (value: number, unit: string, what: string): Goal => ({ what, unit, bound, value });
const atLeast = goal("≥");
/** A figure of at most so much. */
export const atMost = goal("≤");
const below = goal("<");

/** Every goal by the bench that judges it; the first is that of the bench's figure. */
export const benchGoals = {
  ingest: {
    ratio: atLeast(2, "×", "durable, deduplicated envelopes/s, by a warm COPY of them as rows"),
    core_us: atMost(1.8, "µs", "core's CPU an envelope"),
    postgres_us: atMost(1, "µs", "PostgreSQL's CPU an envelope"),
    bytes_spans: atMost(0.18, "×", "bytes of table and log, by those of rows, `--corpus spans`"),
    bytes_lines: atMost(0.25, "×", "the same, `--corpus lines`"),
    ack_p99_ms: below(60, "ms", "ack p99"),
    core_mb: below(300, "MB", "core's peak memory"),
  },
  "ingest --store": {
    per_second: atLeast(320_000, "/s", "durable, deduplicated envelopes/s in objects"),
    core_us: atMost(2, "µs", "core's CPU an envelope"),
    postgres_us: atMost(0.05, "µs", "PostgreSQL's CPU an envelope"),
    ack_p99_ms: below(400, "ms", "ack p99"),
    core_mb: below(300, "MB", "core's peak memory"),
  },
  "ingest --streams 64 --frame 1": {
    per_second: atLeast(25_000, "/s", "durable, deduplicated envelopes/s"),
  },
  "ingest --streams 2000": {
    ratio: below(2, "×", "ack p99 of a busy stream, by that alone"),
    core_kib_each: below(60, "KiB", "core's memory for an idle stream"),
  },
  heartbeat: {
    cpu_us: atMost(250, "µs", "CPU of a signed, stored heartbeat, core and PostgreSQL"),
    ratio: atLeast(0.5, "×", "heartbeats/s, by signature checks/s on one core"),
    p99_ms: below(150, "ms", "p99 at full load"),
    core_mb: below(350, "MB", "core's peak memory"),
  },
  "heartbeat --connections stream": {
    cpu_us: atMost(52, "µs", "CPU of a status on an open stream, core and PostgreSQL"),
    log_bytes: atMost(120, "bytes", "write-ahead log of it"),
    core_mb: below(350, "MB", "core's peak memory"),
  },
  opamp: {
    cpu_ratio: atMost(1.3, "×", "core's CPU of a heartbeat, by that of an echo"),
    memory_ratio: atMost(1.5, "×", "core's memory of a socket, by that of an echo"),
  },
  assigned: {
    p50_ms: below(500, "ms", "from the assignment to core's row of the host's report"),
    p99_ms: below(2_000, "ms", "p99 of it, for a wave of 100 hosts"),
  },
  enroll: {
    cpu_us: atMost(600, "µs", "CPU a certificate, one-time tokens, core and PostgreSQL"),
    p99_ms: below(150, "ms", "p99"),
  },
  health: {
    route_ms: below(60, "ms", "p95 of a page at 100,000 hosts"),
    database_ms: below(25, "ms", "p95 of a page at the database"),
    operators_ms: below(150, "ms", "p95 for eight operators at once"),
    summary_ms: below(40, "ms", "p95 of the summary"),
    facets_ms: below(150, "ms", "p95 of the facets"),
    now_ms: below(100, "ms", "p95 of `Now`, shared"),
    csv_s: below(5, "s", "a CSV of 100,000 rows"),
    csv_mb: below(50, "MB", "memory for it"),
    heartbeats: atLeast(0.95, "×", "statuses recorded beside, by `--heartbeats`"),
    status_us: atMost(12, "µs", "PostgreSQL's CPU for a status"),
    status_wal: atMost(120, "bytes", "write-ahead log for a status, full pages apart"),
  },
  ui: {
    interactive: below(1, "×", "until `/fleet` is interactive, by 1,000 ms or 5 floors"),
    input_ms: below(100, "ms", "response to any input on the slow processor"),
    layout_shift: atMost(0, "", "layout shift"),
    fleet_kib: atMost(70, "KiB", "script on `/fleet`, gzip"),
    home_kib: atMost(50, "KiB", "script on `/`, gzip"),
    login_kib: atMost(15, "KiB", "script on `/login`, gzip"),
    style_kib: atMost(12, "KiB", "style of any page, gzip"),
  },
  start: {
    core_s: below(1, "s", "core is ready, database migrated"),
    run_s: below(0.4, "s", "collector `run` forwards"),
    diag_s: below(0.3, "s", "collector `diag` ends"),
    worker_kib: below(1024, "KiB", "the worker's bundle, gzip"),
  },
  collector: {
    spans_ms: atMost(2.6, "ms", "CPU for 1,000 spans: received, durable, forwarded, acknowledged"),
    spans: atLeast(120_000, "/s", "spans/s"),
    lines_ms: atMost(3.5, "ms", "CPU for 1,000 lines"),
    lines: atLeast(60_000, "/s", "lines/s"),
    preset_ms: atMost(6, "ms", "CPU for 1,000 lines that a preset joins"),
    pattern_ms: atMost(20, "ms", "CPU for 1,000 lines that a user's pattern joins"),
    loaded_mb: below(110, "MB", "memory under load"),
    idle_mb: atMost(71, "MB", "memory when idle"),
    idle_percent: atMost(0.2, "%", "CPU when idle"),
    files_mb: atMost(95, "MB", "memory with 5,000 followed files, when idle"),
    files_percent: atMost(0.5, "%", "CPU with 5,000 followed files, when idle"),
    rotated_ms: atMost(1_000, "ms", "until a line behind a rotation of one has arrived"),
  },
  export: {
    ratio: atLeast(0.9, "×", "envelopes/s while others arrive, by a loop that reads and sends"),
    times_arrival: atLeast(5, "×", "the same, by what arrives"),
    slowdown: atMost(0.1, "×", "fewer commits at the arrival rate"),
    saturated_slowdown: atMost(0.1, "×", "fewer commits of a saturated ingest"),
    exporter_mb: atMost(200, "MB", "memory of the export"),
  },
  ratchet: {
    rise: atMost(0.15, "×", "largest rise of CPU time for a unit since the committed figures"),
  },
} as const satisfies Readonly<Record<string, Readonly<Record<string, Goal>>>>;

type Judged<Name extends keyof typeof benchGoals> = Readonly<
  Record<keyof (typeof benchGoals)[Name], number | null>
>;

/**
 * Compares the figures of a bench with all of its goals. `null` is a figure that this run did not measure, which meets and misses nothing;
 * without any other figure nothing is `ok`. `goal` is the bound of the first.
 */
export const judgeGoals = <Name extends keyof typeof benchGoals>(
  name: Name,
  figures: Judged<Name>,
) => {
  const named = Object.entries<Goal>(benchGoals[name]);
  const judged = named.map(([key, { value, bound, unit }]) => {
    const figure = figures[key as keyof Judged<Name>];
    const met = figure === null ? "not judged" : isWithin(figure, bound, value);
    return [key, { figure, goal: describeGoal({ bound, value, unit }), met }] as const;
  });
  const results = judged.map(([, { met }]) => met);
  const ok = results.includes(true) && !results.includes(false);
  return { ok, goal: named[0]?.[1].value ?? Number.NaN, goals: Object.fromEntries(judged) };
};

/** Returns a bound such as `≥ 15,000/s`. */
export const describeGoal = ({ bound, value, unit }: Omit<Goal, "what">): string =>
  `${bound} ${value.toLocaleString("en-US")}${unit.startsWith("/") ? "" : " "}${unit}`.trim();

const isWithin = (figure: number, bound: Goal["bound"], value: number): boolean => {
  if (bound === "≥") return figure >= value;
  return bound === "≤" ? figure <= value : figure < value;
};
