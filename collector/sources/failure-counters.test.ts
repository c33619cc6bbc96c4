import { expect, it } from "vitest";
import { reportedNumbers } from "#proto/management/reported-numbers.ts";
import { createTestClock } from "#tests/fakes/clock.ts";
import { createTestLog } from "#tests/fakes/log.ts";
import { createMounts } from "../files/mounts.ts";
import { createFileSource } from "./file/file-source.ts";
import { createSourceFiles } from "./file/source-files.ts";
import { createHostMetricsSource } from "./host-metrics/host-metrics-source.ts";
import type { JournaldConfig } from "./journald/journal-record.ts";
import { createJournaldSource } from "./journald/journald-source.ts";
import { createOtlpSource } from "./otlp/otlp-source.ts";

/** The counters that rise while a part does not do its work, by the condition that says so. */
const failures = {
  queue_unwritable: ["unavailable"],
  source_failed: ["failures"],
  files_waiting: ["waiting"],
  // A callback of a request that throws: a fault of ours, logged, and its sender sends again.
  logged: ["failed"],
  // Of a full queue, which is at risk before that, and of what core finds in the numbers of the queue.
  queue_at_risk: [
    "dropped",
    "skipped",
    "gaps",
    "gap_bytes",
    "given_up",
    "lost_entries",
    "oldest_record_age_seconds",
    "dropped_records_total",
  ],
  also_at_risk: ["dead_letters", "file_gaps_total", "file_gap_bytes_total"],
};
const ofWork = ["stored", "files", "lines", "records", "bytes", "max_bytes", "forks_total"];
const ofSenders = [
  "partial",
  "too_large",
  "invalid",
  "forbidden",
  "rejected_items",
  "repaired_strings",
];
/** Counters of files and the journal that report no failure; what is malformed is counted as refused. */
const ofFiles = [
  "nul_bytes",
  "invalid_characters",
  "unparsed",
  "malformed",
  "cut_fields",
  "repeated",
];

const dependencies = {
  append: async () => Promise.reject(new Error("unused")),
  refused: () => undefined,
  checkpoints: () => new Map(),
  clock: createTestClock(),
  log: createTestLog(),
};
const files = {
  include: ["/nowhere/*"],
  exclude: [],
  startAt: "beginning",
  rules: { neverRead: [] },
} as const;
const journal: JournaldConfig = {
  units: [],
  identifiers: [],
  priority: "debug",
  startAt: "end",
  directory: undefined,
  namespace: undefined,
};
const sources = [
  createOtlpSource({}, dependencies),
  createFileSource(files, {
    ...dependencies,
    files: createSourceFiles(createMounts(dependencies.clock)),
  }),
  createHostMetricsSource({ intervalSeconds: 60 }, dependencies, dependencies.append),
  createJournaldSource(journal, dependencies),
];

it("W3: each counter of a source or the queue has a condition, or needs none", () => {
  const known = [...Object.values(failures).flat(), ...ofWork, ...ofSenders, ...ofFiles];
  const found = [
    ...sources.flatMap(({ counters }) => Object.keys(counters?.() ?? {})),
    ...Object.keys(reportedNumbers.queue),
  ];
  expect([...new Set(found)].toSorted()).toEqual(known.toSorted());
});
