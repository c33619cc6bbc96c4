import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from "prom-client";
import { singleFlight } from "#kit/group-calls.ts";
import type { Log } from "#kit/log.ts";
import type { DirectoryObserver } from "../core.ts";
import {
  countedMetrics,
  type GaugeName,
  type Observer,
  type Recorders,
} from "../counted-metrics.ts";
import type { IngestObserver } from "../ingest/accept-frame.ts";
import type { AdoptionObserver } from "../ingest/adoption-report.ts";
import type { CommitObserver } from "../ingest/committer.ts";
import type { ObjectObserver } from "../ingest/object-writer.ts";
import type { Figure } from "../ops/figures.ts";

/** Core's metrics, counted by prom-client in a registry of their own. */
export type Metrics = ReturnType<typeof createMetrics>;

/** Seconds: from a cached response to the timeout of a statement, 30 s. */
const durationBuckets = [
  0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30,
];

/** Creates the metrics, with those of the process and of the event loop. */
export const createMetrics = (log: Log) => {
  const registry = new Registry();
  const registers = [registry];
  collectDefaultMetrics({ register: registry });
  // Gauges with a counter's suffix, each the sum of `nodejs_active_*` by type.
  for (const name of ["handles", "requests", "resources"])
    registry.removeSingleMetric(`nodejs_active_${name}_total`);
  const record = createRecorders(registers);
  return {
    observe: {
      ...record,
      httpRequest: (route, method, status, seconds) =>
        record.httpRequest(route, known(method), status, seconds),
    } satisfies Observer,
    observeIngest: ingestObserverOf(record),
    observeDirectory: directoryObserverOf(record),
    /** Has `read` supply a gauge at each scrape. */
    gauge: (name: GaugeName, read: () => number) => {
      const { name: metricName, help } = countedMetrics[name];
      const collect = () => value.set(read());
      const value: Gauge = new Gauge({ name: metricName, help, registers, collect });
    },
    /** Adds a figure that is read at each scrape; scrapes that overlap share one read. */
    figure: (figure: Figure) => addFigure(figure, registers, log),
    /** Returns the text that Prometheus scrapes, and its media type. */
    render: singleFlight(async () => ({
      type: registry.contentType,
      content: await registry.metrics(),
    })),
  };
};

/** Adds a figure. If it cannot be read, only its samples are missing, so that a failure does not hide the other metrics. */
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

/** Creates each metric of the table, and returns what records it. */
const createRecorders = (registers: Registry[]): Recorders =>
  Object.fromEntries(
    Object.entries(countedMetrics).map(([key, { kind, name, help, labels }]) => {
      const options = { name, help, labelNames: [...labels], registers };
      return [key, recorderOf(kind, options)];
    }),
  ) as unknown as Recorders;

type MetricOptions = { name: string; help: string; labelNames: string[]; registers: Registry[] };

const recorderOf = (kind: "counter" | "seconds" | "gauge", options: MetricOptions) => {
  switch (kind) {
    case "counter": {
      const counter = new Counter(options);
      return (...args: (string | number)[]) => {
        const [labels, value = 1] = readArgs(options, args);
        counter.labels(...labels).inc(value);
      };
    }
    case "seconds": {
      const histogram = new Histogram({ ...options, buckets: durationBuckets });
      return (...args: (string | number)[]) => {
        const [labels, value = 0] = readArgs(options, args);
        histogram.labels(...labels).observe(value);
      };
    }
    case "gauge": {
      let gauge: Gauge | undefined;
      // Not before there is a value, and never for one that is read at each scrape.
      return (value: number) => {
        gauge ??= new Gauge(options);
        gauge.set(value);
      };
    }
  }
};

/** Splits the arguments of a recorder into the values of the labels, and the value. */
const readArgs = ({ labelNames: { length } }: MetricOptions, args: readonly (string | number)[]) =>
  [args.slice(0, length) as string[], args[length] as number | undefined] as const;

const directoryObserverOf = (record: Recorders): DirectoryObserver => ({
  ended: (outcome) => {
    record.directorySync(outcome);
    if (outcome === "refused" || outcome === "failed") record.directorySyncFailure();
  },
  snapshot: ({ syncedAt, held }) => {
    record.directorySnapshot((syncedAt ?? 0) / 1000);
    record.directoryAbsences(held);
  },
});

const ingestObserverOf = (
  record: Recorders,
): IngestObserver & CommitObserver & ObjectObserver & AdoptionObserver => ({
  committed: (facts) => {
    record.frames();
    record.envelopes(facts.envelopes);
    record.bytes(facts.bytes);
    if (facts.discarded > 0) record.discarded(facts.discarded);
    for (const code of facts.rejected) record.rejected(code);
  },
  refused: record.refused,
  gap: (sequences) => {
    record.gaps();
    record.gapSequences(Number(sequences));
  },
  implausibleGap: () => record.implausibleGaps(),
  batch: ({ seconds, rows }) => {
    record.commit(seconds);
    record.rows(rows);
  },
  objectWrite: ({ seconds, outcome }) => record.objectWrite(outcome, seconds),
  objects: record.objects,
  adopted: record.adopted,
});

const knownMethods = new Set(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]);

/** Returns "other" for an unknown method: a caller must not choose the values of a label. */
const known = (method: string) => (knownMethods.has(method) ? method : "other");
