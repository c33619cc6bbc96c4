/*
 * A `file` source: three loops that never wait for each other. Discovery finds files and holds them; for each mount, one loop reads its files and
 * one append at a time waits for room in the queue. So a full queue stops no discovery, and a mount that hangs stops neither the files of
 * other mounts nor the start nor the stop.
 */
import { isDiskUnwritable, QueueClosedError } from "#collector/queue/errors.ts";
import type { Queue } from "#collector/queue/queue.ts";
import type { Checkpoint } from "#collector/queue/record.ts";
import { createReportedFault } from "#collector/queue/reported-fault.ts";
import { type Clock, minuteMs, rfc3339 } from "#kit/clock.ts";
import { untraced } from "#kit/tracing/tracer.ts";
import type { ReportedCondition } from "#proto/management/heartbeat.ts";
import type { PositionedSourceDependencies, Source, SourceDependencies } from "../source.ts";
import { createClosing } from "./closing.ts";
import { createDirectoryWatch } from "./directory-watch.ts";
import { createDiscovery, type FileSourceConfig, isHung } from "./discovery.ts";
import { createLedgers } from "./ledger.ts";
import { createMultiline, type Multiline, type MultilineConfig } from "./multiline.ts";
import type { Placed } from "./placement.ts";
import type { createPodLabels, PodLabels } from "./pod-labels.ts";
import { fileCheckpoints } from "./position.ts";
import {
  createPause,
  createReaders,
  type Followed,
  followedFile,
  whileRunning,
} from "./readers.ts";
import type { SourceFiles } from "./source-files.ts";
import { createTailReader, type Tail, type TailReports } from "./tail.ts";
import { fileWarnings } from "./warnings.ts";

/** The dependencies of a `file` source. */
interface FileSourceDependencies extends PositionedSourceDependencies {
  files: SourceFiles;
}

const discoveryMs = 1_000;
/** How often the sizes of files are saved while nothing of them can be stored. */
const lookMs = 10_000;

/**
 * Follows the files that the patterns match, line by line, without losing or repeating one: across rotation by rename and by copy and truncate,
 * across restarts, and while the queue is full. Polls: file events are neither reliable nor available on every file system, and only make idle
 * files cheap.
 */
export const createFileSource = (
  config: FileSourceConfig,
  dependencies: FileSourceDependencies,
): Source => {
  const { clock, log } = dependencies;
  const { name = "file" } = config;
  const followed = new Map<string, Followed>();
  const tails = new Map<string, Tail>();
  const ledgers = createLedgers(() => dependencies.checkpoints(fileCheckpoints));
  const stopping = new AbortController();
  const counts = { ...noCounts };
  const fault = createReportedFault("source_failed", clock, `${name}: `);
  const waiting = createWaiting(clock);
  const storing = createStoring(name, dependencies, counts);
  let running: Promise<unknown> = Promise.resolve();

  const follow = ({ key, file, position, kind }: Placed) => {
    const { path, offset } = position;
    log.info({ source: name, path, file: file.realPath, kind, offset }, "following a file");
    const tail = reader.open({ key, file }, position);
    closing.unpark(key);
    tails.set(key, tail);
    followed.set(key, followedFile(tail, kind));
    readers.begin(tail);
  };

  const pause = createPause(clock, stopping.signal);
  const watch = createDirectoryWatch(clock, (directory, hasOtherNames) => {
    readers.poll(directory);
    if (hasOtherNames) pause.end();
  });

  const shared = { ...dependencies, tails, ledgers, watch, fault, signal: stopping.signal };
  const discovery = createDiscovery(config, {
    ...shared,
    follow,
    unopened: (path, error) => fault.failed(error, path),
    hasRoom: (opened) =>
      tails.size + opened < (config.maxHeldFiles ?? openFilesMax) && dependencies.files.hasRoom(),
    isParked: (stat) => closing.isParked(stat),
  });

  const reports = { truncated: discovery.truncated, ...createReports(name, counts, log) };
  const reading = readingOf(config, name, shared);
  const reader = createTailReader(reading, { ...dependencies, ...storing }, reports);
  const closing = createClosing(config, followed, { ...shared, discovery, reader });

  /** Reports a failure, once for all files that fail alike: a full disk would get a line of each. A mount that hangs reports itself. */
  const report = (error: unknown, path: string | undefined, reported: Set<string>) => {
    if (error instanceof QueueClosedError) throw error;
    if (isHung(error)) return;
    counts.failures += 1;
    fault.failed(error, path);
    if (!reported.has(String(error)))
      log.error({ err: error, source: name, path }, "a file could not be read or stored; retrying");
    reported.add(String(error));
  };

  const readers = createReaders(followed, {
    ...shared,
    ...discovery,
    ...reader,
    finish: async (tail, buffer) => {
      if (await reader.finish(tail, buffer, stopping.signal)) await closing.end(tail);
    },
    report,
  });

  const discover = async () => {
    await whileRunning(stopping.signal, async () => {
      await pause.wait(discoveryMs);
      try {
        await discovery.run();
        const files = discovery.counters().waiting;
        waiting.are(files);
        if (files > 0) await closing.park(files);
        await closing.freeSpace();
        if (storing.waitedMs() >= lookMs) await saveSizes();
      } catch (error) {
        stopping.signal.throwIfAborted();
        report(error, undefined, new Set());
      }
    });
  };

  /** Saves how large the files are, so that it is known what is lost if they are gone before they are read. */
  const saveSizes = async () => {
    const checkpoints: Checkpoint[] = [];
    for (const { tail, isInUse } of followed.values()) {
      if (isInUse || !(await reader.refreshSize(tail).catch(() => false))) continue;
      checkpoints.push(reader.checkpoint(tail));
    }
    if (checkpoints.length > 0) await dependencies.append([], { checkpoints });
  };

  return {
    name,
    start: async () => {
      await reading.multiline;
      await discovery.run().catch((error: unknown) => {
        // Neither a full disk nor a mount that hangs is a fault of the config: it is tried again, as later.
        if (!isDiskUnwritable(error) && !isHung(error)) throw error;
        report(error, undefined, new Set());
      });
      running = discover();
    },
    stop: async () => {
      stopping.abort(new Error("the source is stopping"));
      await Promise.all([running, readers.ended()]);
      watch.close();
      await saveSizes().catch((error: unknown) =>
        log.warn({ err: error, source: name }, "the sizes of files could not be saved"),
      );
      await discovery.close();
      for (const tail of tails.values()) await tail.file.close().catch(() => undefined);
      tails.clear();
      followed.clear();
    },
    condition: () => fault.condition() ?? waiting.condition(),
    warnings: () => [
      ...discovery.warnings(),
      ...fileWarnings([...tails.values()], dependencies.files),
      ...readers.warnings(),
      ...(reading.podLabels?.warnings() ?? []),
    ],
    counters: () => ({
      files: tails.size,
      ...counts,
      ...discovery.counters(),
      ...closing.counters(),
    }),
  };
};

const noCounts = {
  lines: 0,
  dropped: 0,
  failures: 0,
  nul_bytes: 0,
  invalid_characters: 0,
  unparsed: 0,
};

/** The defaults: the most files that are open, and how they are read. */
const openFilesMax = 10_000;
const tailDefaults = { partialAfterMs: 5_000, encoding: "utf-8" } as const;

const openMultiline = async (config: MultilineConfig | undefined): Promise<Multiline | undefined> =>
  config && createMultiline(config);

/** Returns the reader of the labels of pods, which is imported once a config names some. */
const openPodLabels = (
  ...[names = [], dependencies]: Parameters<typeof createPodLabels>
): PodLabels | undefined => {
  if (names.length === 0) return undefined;
  let labels: PodLabels | undefined;
  return {
    addTo: async (attributes) => {
      const pods = await import("./pod-labels.ts");
      labels ??= pods.createPodLabels(names, dependencies);
      return labels.addTo(attributes);
    },
    warnings: () => labels?.warnings() ?? [],
  };
};

/** Returns how the files of a source are read. */
const readingOf = (
  config: FileSourceConfig,
  source: string,
  dependencies: Parameters<typeof createPodLabels>[1],
) => ({
  ...tailDefaults,
  ...config,
  source,
  multiline: openMultiline(config.multiline),
  podLabels: openPodLabels(config.podLabels, dependencies),
});

/** Files that wait for so long may be gone before their turn. */
const waitingMs = minuteMs;

/** Follows how long files wait to be opened. While they do, nothing holds what rotation deletes of them. */
const createWaiting = (clock: Pick<Clock, "now" | "monotonic">) => {
  let since: { files: number; at: number; wallMs: number } | undefined;
  return {
    are: (files: number) => {
      since =
        files > 0 ? { at: clock.monotonic(), wallMs: clock.now(), ...since, files } : undefined;
    },
    condition: (): ReportedCondition | undefined =>
      since && clock.monotonic() - since.at >= waitingMs
        ? {
            code: "files_waiting",
            since: rfc3339(since.wallMs),
            reason: `files that wait until others are closed: ${since.files}; raise max_held_files or the limit of descriptors, as what is rotated away meanwhile is lost`,
          }
        : undefined,
  };
};

/** Creates the reports of what a tail could not store as it is. */
const createReports = (
  source: string,
  counts: { nul_bytes: number; invalid_characters: number; unparsed: number },
  log: SourceDependencies["log"],
): Omit<TailReports, "truncated"> => ({
  skipped: (path, nulBytes) => {
    counts.nul_bytes += nulBytes;
    log.warn({ source, path, nul_bytes: nulBytes }, "skipped a hole of NULs");
  },
  replaced: (characters) => {
    counts.invalid_characters += characters;
  },
  unparsed: (lines) => {
    counts.unparsed += lines;
  },
});

/** Appends lines, counts them, and knows how long an append has waited. */
const createStoring = (
  source: string,
  { append, clock, tracer = untraced }: SourceDependencies,
  counts: { lines: number; dropped: number },
) => {
  const since = new Set<{ at: number }>();
  const counted: Queue["append"] = async (records, options) => {
    const count = "count" in records ? records.count : records.length;
    const waiting = { at: clock.monotonic() };
    since.add(waiting);
    try {
      const outcome = await tracer.serve(
        {
          name: "read lines",
          kind: "internal",
          facts: { "svc.source": source, "svc.records": count },
        },
        undefined,
        () => append(records, options),
      );
      counts[outcome === "stored" ? "lines" : "dropped"] += count;
      return outcome;
    } finally {
      since.delete(waiting);
    }
  };
  return {
    append: counted,
    waitedMs: () => {
      const oldest = Math.min(...[...since].map(({ at }) => at));
      return Number.isFinite(oldest) ? clock.monotonic() - oldest : 0;
    },
  };
};
