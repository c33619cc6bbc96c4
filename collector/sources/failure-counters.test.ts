import { expect, it } from "vitest";
import type { SourceConfig } from "../../proto/collector-config/parse.ts";
import { reportedNumbers } from "../../proto/management/reported-numbers.ts";
import { createTestClock } from "../../tests/fakes/clock.ts";
import { createTestLog } from "../../tests/fakes/log.ts";
import { createFileSource } from "./file/file-source.ts";
import { createHostMetricsSource } from "./host-metrics/host-metrics-source.ts";
import { createOtlpSource } from "./otlp/otlp-source.ts";

/** The condition of a counter that rises while a part does not do its work, or why none is due. */
type Meaning = "source_failed" | "queue_unwritable" | "queue_at_risk" | "its work" | "the sender's";

const ofSources: Record<SourceConfig["type"], Record<string, Meaning>> = {
  otlp: {
    stored: "its work",
    partial: "the sender's",
    // Of a full queue, which is at risk before that, and then as records that are dropped.
    dropped: "queue_at_risk",
    too_large: "the sender's",
    // The queue is full, or cannot be written.
    unavailable: "queue_unwritable",
    invalid: "the sender's",
    forbidden: "the sender's",
    rejected_items: "the sender's",
    repaired_strings: "the sender's",
  },
  file: {
    files: "its work",
    lines: "its work",
    dropped: "queue_at_risk",
    failures: "source_failed",
    gaps: "queue_at_risk",
    gap_bytes: "queue_at_risk",
  },
  host_metrics: { stored: "its work", skipped: "queue_at_risk" },
};

const ofQueue: Record<keyof typeof reportedNumbers.queue, Meaning> = {
  records: "its work",
  bytes: "its work",
  max_bytes: "its work",
  oldest_record_age_seconds: "queue_at_risk",
  dropped_records_total: "queue_at_risk",
  dead_letters: "queue_at_risk",
  forks_total: "its work",
  file_gaps_total: "queue_at_risk",
  file_gap_bytes_total: "queue_at_risk",
};

const dependencies = {
  append: async () => Promise.reject(new Error("unused")),
  refused: () => undefined,
  checkpoints: () => new Map(),
  clock: createTestClock(),
  log: createTestLog(),
};
const files = { include: ["/nowhere/*"], exclude: [], startAt: "beginning", rules: { neverRead: [] } } as const;
const sources = {
  otlp: createOtlpSource({}, dependencies),
  file: createFileSource(files, dependencies),
  host_metrics: createHostMetricsSource({ intervalSeconds: 60 }, dependencies),
};

it.each(["otlp", "file", "host_metrics"] as const)("W3: each counter of %s has a condition, or needs none", (type) => {
  expect(Object.keys(sources[type].counters?.() ?? {}).toSorted()).toEqual(Object.keys(ofSources[type]).toSorted());
});

it("W3: each number of the queue has a condition, or needs none", () => {
  expect(Object.keys(ofQueue)).toEqual(Object.keys(reportedNumbers.queue));
});
