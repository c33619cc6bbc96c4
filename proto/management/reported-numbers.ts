/**
 * The numbers of a heartbeat, each described once: its schema, tables, statements, statuses, the report, exports, filters, orders and the
 * columns of the chat's relations take from here what they need. CONTRIBUTING.md says how to add one.
 */

/** A number of a heartbeat. */
export interface ReportedNumber {
  /** Its column in `collector_health` and in the chat's relations. */
  readonly column: string;
  /** Describes it in the chat's relations. */
  readonly meaning: string;
  /** Its value where an older collector leaves it out: `zero` or `unknown`. With `null`, a host without a value reports null. */
  readonly absent?: "zero" | "unknown" | "null";
  /** Decides how people read and write it. */
  readonly unit: string;
  /** Its name among the facts of a host; without one, the page words it by itself. */
  readonly label?: string;
  /** Its name in the CSV exports, `column` by default: of the queue in those of its risk, of the process in all. They do not have it if false. */
  readonly csv?: string | false;
  /** Its name in `StatusFigures`: a status carries it, so that the digest of the report leaves it out. */
  readonly status?: string;
  /** Its column in `fleet_status`: a figure changes with each heartbeat of a host that works, and alone leaves the stored report as it is. */
  readonly figure?: string;
  /** The report sorts by this figure. */
  readonly sorts?: true;
  /** The filter for more than this figure: its names, its key in the query language, and values that the page suggests; the last is the example. */
  readonly filter?: Readonly<Record<"part" | "parameter" | "key", string>> & {
    readonly examples: readonly string[];
  };
}

const number = <const Described extends ReportedNumber>(described: Described): Described =>
  described;

/** The numbers of a heartbeat by their places in it, in the order of the report. */
export const reportedNumbers = {
  queue: {
    records: number({
      column: "queue_records",
      meaning: "Records in the collector's queue; null before the first heartbeat.",
      status: "queueRecords",
      figure: "queue_records",
      label: "Records",
      unit: "records",
    }),
    bytes: number({
      column: "queue_bytes",
      meaning: "Size of the queue; null before the first heartbeat.",
      status: "queueBytes",
      figure: "queue_bytes",
      sorts: true,
      unit: "bytes",
      filter: {
        part: "queueAboveBytes",
        parameter: "queue_above_bytes",
        key: "queue",
        examples: ["1MiB", "10MiB"],
      },
    }),
    max_bytes: number({
      column: "queue_bytes_max",
      meaning: "Largest allowed size of the queue.",
      csv: "queue_max_bytes",
      unit: "bytes",
    }),
    oldest_record_age_seconds: number({
      column: "queue_oldest_record_age_seconds",
      meaning: "Age of the oldest record; null when the queue is empty.",
      absent: "null",
      status: "oldestRecordAgeSeconds",
      figure: "queue_oldest_seconds",
      label: "Oldest record",
      unit: "seconds",
    }),
    dropped_records_total: number({
      column: "dropped_records_total",
      meaning: "Records that the collector dropped, in all.",
      status: "droppedRecordsTotal",
      label: "Dropped in all",
      unit: "records",
    }),
    dead_letters: number({
      column: "dead_letters",
      meaning: "Records that core rejected, in all.",
      absent: "zero",
      status: "deadLetters",
      label: "Dead letters",
      unit: "records",
    }),
    forks_total: number({
      column: "queue_forks",
      meaning: "How often the queue continued under a new id, because core knew a copy of it.",
      csv: false,
      absent: "zero",
      label: "New queue ids",
      unit: "forks",
    }),
    file_gaps_total: number({
      column: "file_gaps",
      meaning: "Times that the collector lost lines of rotated files, or entries of a journal.",
      csv: false,
      absent: "zero",
      unit: "times",
    }),
    file_gap_bytes_total: number({
      column: "file_gap_bytes",
      meaning: "Size of those lines, as far as it is known.",
      csv: false,
      absent: "zero",
      unit: "bytes",
    }),
  },
  /** Of the collector's process: all of them are figures, which `fleet_status` has under the same names, -1 for none. */
  process: {
    rss_bytes: number({
      column: "rss_bytes",
      meaning: "Resident memory of the collector's process; null if it does not report it.",
      csv: false,
      status: "rssBytes",
      figure: "rss_bytes",
      label: "Memory",
      unit: "bytes",
    }),
    cpu_ms: number({
      column: "cpu_ms",
      meaning: "CPU time of the process since its start.",
      csv: false,
      status: "cpuMs",
      figure: "cpu_ms",
      unit: "milliseconds",
    }),
  },
} satisfies Record<"queue" | "process", Record<string, ReportedNumber>>;

type Numbers = (typeof reportedNumbers)["queue"] & (typeof reportedNumbers)["process"];
type AnyNumber = Numbers[keyof Numbers];

/** A column of `reportedNumbers`. */
export type NumberColumn = AnyNumber["column"];

/** Every number, in this order. */
export const everyNumber: readonly (ReportedNumber & { readonly column: NumberColumn })[] = [
  ...Object.values(reportedNumbers.queue),
  ...Object.values(reportedNumbers.process),
];

/** The numbers of a process; null for those that the host does not report. */
export type ProcessFigures = Record<keyof (typeof reportedNumbers)["process"], number | null>;

/** A figure that the report sorts by. */
type SortedFigure = Extract<AnyNumber, { sorts: true }>["figure"];

/** The figures that the report sorts by. */
export const sortedFigures = everyNumber.flatMap(({ sorts, figure }) =>
  sorts ? [figure] : [],
) as SortedFigure[];

/** The filter for more than a figure. */
export type FigureFilter = Extract<AnyNumber, { filter: object }>["filter"];

/** The filters for more than a figure, with its column and its unit. */
export const figureFilters = everyNumber.flatMap(({ filter, figure, unit }) =>
  filter ? [{ ...filter, figure, unit }] : [],
) as (FigureFilter & { figure: string; unit: string })[];
