/**
 * The numbers of a heartbeat, defined once: its schema, the row of the report, what core stores and reads, and the columns of the chat's
 * relations take them from here. CONTRIBUTING.md says how to add one.
 */
import * as v from "valibot";
import { Counter } from "./text.ts";

/** A number of a heartbeat. */
export interface ReportedNumber {
  /** Its column in `collector_health` and in the chat's relations. */
  readonly column: string;
  /** Its schema in a heartbeat; optional if older collectors do not report it. */
  readonly heartbeat: v.GenericSchema<number | null | undefined>;
  /** Its name in `StatusFigures`: a status carries it, so that the digest of the report leaves it out. */
  readonly status?: string;
  /** Its column in `fleet_status`: a figure changes with each heartbeat of a host that works, and alone leaves the stored report as it is. */
  readonly figure?: string;
}

/** The numbers of a heartbeat by their places in it, in the order of the report. */
export const reportedNumbers = {
  queue: {
    records: { column: "queue_records", heartbeat: Counter, status: "queueRecords", figure: "queue_records" },
    bytes: { column: "queue_bytes", heartbeat: Counter, status: "queueBytes", figure: "queue_bytes" },
    max_bytes: { column: "queue_bytes_max", heartbeat: Counter },
    oldest_record_age_seconds: {
      column: "queue_oldest_record_age_seconds",
      heartbeat: v.nullable(Counter),
      status: "oldestRecordAgeSeconds",
      figure: "queue_oldest_seconds",
    },
    dropped_records_total: { column: "dropped_records_total", heartbeat: Counter, status: "droppedRecordsTotal" },
    dead_letters: { column: "dead_letters", heartbeat: v.optional(Counter, 0), status: "deadLetters" },
    forks_total: { column: "queue_forks", heartbeat: v.optional(Counter, 0) },
    file_gaps_total: { column: "file_gaps", heartbeat: v.optional(Counter, 0) },
    file_gap_bytes_total: { column: "file_gap_bytes", heartbeat: v.optional(Counter, 0) },
  },
  /** Of the collector's process: all of them are figures, which `fleet_status` has under the same names, -1 for none. */
  process: {
    rss_bytes: { column: "rss_bytes", heartbeat: Counter, status: "rssBytes", figure: "rss_bytes" },
    cpu_ms: { column: "cpu_ms", heartbeat: Counter, status: "cpuMs", figure: "cpu_ms" },
  },
} as const satisfies Readonly<Record<string, Readonly<Record<string, ReportedNumber>>>>;

/** Every number, in this order. */
export const everyNumber: readonly ReportedNumber[] = [
  ...Object.values(reportedNumbers.queue),
  ...Object.values(reportedNumbers.process),
];

type Groups = typeof reportedNumbers;

/** A column of `reportedNumbers`. */
export type NumberColumn = {
  [Group in keyof Groups]: Groups[Group][keyof Groups[Group]] extends { column: infer Column } ? Column : never;
}[keyof Groups];

/** The names of the numbers of the process in `StatusFigures`. */
export type ProcessFigure = Groups["process"][keyof Groups["process"]]["status"];

/** The columns in words, for the chat. */
export const numberMeanings: Readonly<Record<NumberColumn, readonly [meaning: string, unit: string]>> = {
  queue_records: ["Records in the collector's queue; null before the first heartbeat.", "records"],
  queue_bytes: ["Size of the queue; null before the first heartbeat.", "bytes"],
  queue_bytes_max: ["Largest allowed size of the queue.", "bytes"],
  queue_oldest_record_age_seconds: ["Age of the oldest record; null when the queue is empty.", "seconds"],
  dropped_records_total: ["Records that the collector dropped, in all.", "records"],
  dead_letters: ["Records that core rejected, in all.", "records"],
  queue_forks: ["How often the queue continued under a new id, because core knew a copy of it.", "forks"],
  file_gaps: ["Times that the collector lost lines of rotated files.", "times"],
  file_gap_bytes: ["Size of those lines, as far as it is known.", "bytes"],
  rss_bytes: ["Resident memory of the collector's process; null if it does not report it.", "bytes"],
  cpu_ms: ["CPU time of the process since its start.", "milliseconds"],
};
