import { dirname } from "node:path";
import { isDiskUnwritable, QueueClosedError } from "#collector/queue/errors.ts";
import type { Queue } from "#collector/queue/queue.ts";
import { createReportedFault } from "#collector/queue/reported-fault.ts";
import { minuteMs } from "#kit/clock.ts";
import { untraced } from "#kit/tracing/tracer.ts";
import type { FileRules, Source, SourceDependencies } from "../source.ts";
import {
  type Aged,
  type FilePatterns,
  ForbiddenFileError,
  findPaths,
  findRenamed,
  matches,
  type OpenFile,
  openAllowedFile,
  statRegularFile,
} from "./discovery.ts";
import { chunkBytes } from "./lines.ts";
import {
  fileKey,
  hasSameHead,
  type Position,
  parsePosition,
  positionAt,
  savePosition,
} from "./position.ts";
import { createRotation, type FileRotation } from "./rotation.ts";
import { createTail, type Tail } from "./tail.ts";

/** The config of a `file` source (docs/collector-config.md). */
export interface FileSourceConfig extends FilePatterns {
  /** `file` unless given. */
  readonly name?: string;
  /** Where to start in files that exist at the first discovery; later ones are read from their start. */
  readonly startAt: "beginning" | "end";
  /** Which of these files it may read. */
  readonly rules: FileRules;
}

/** The dependencies of a `file` source. */
export interface FileSourceDependencies extends SourceDependencies {
  checkpoints: Queue["checkpoints"];
}

/** The poll interval: short after a read, longer while nothing changes, so that an idle host stays idle. */
const pollMs = { least: 100, most: 1_000 };
const discoveryMs = 1_000;
const retryMs = 1_000;
/** How long a rotated file, which no pattern matches any more, stays open for a writer that still uses it. */
const rotatedIdleMs = 5 * minuteMs;

/** All `file` sources share their checkpoints, so that a file that moves from one source to another is not read twice. */
const checkpointSource = "file";

/**
 * Follows the files that the patterns match, line by line, without losing or repeating one: across rotation by rename and by
 * copy and truncate, across restarts, and while the queue is full, when reading pauses. Polls: file events are neither reliable nor
 * available on every file system.
 */
export const createFileSource = (
  config: FileSourceConfig,
  dependencies: FileSourceDependencies,
): Source => {
  const { append, clock, log, tracer = untraced } = dependencies;
  const { name = "file" } = config;
  const checkpoints = () => dependencies.checkpoints(checkpointSource);
  // One buffer for all files, since they are read one after the other.
  const own = { name, checkpointSource, buffer: Buffer.allocUnsafeSlow(chunkBytes) };
  const tails = new Map<string, Tail>();
  const ages = new Map<string, () => Promise<Aged>>();
  const stopping = new AbortController();
  const { signal } = stopping;
  let running: Promise<void> = Promise.resolve();
  let pauseMs = pollMs.least;
  const counts = { lines: 0, dropped: 0, failures: 0 };
  const counted: Queue["append"] = async (records, options) => {
    const count = "count" in records ? records.count : records.length;
    const outcome = await tracer.serve(
      { name: "read lines", kind: "internal", facts: { "svc.source": name, "svc.records": count } },
      undefined,
      () => append(records, options),
    );
    counts[outcome === "stored" ? "lines" : "dropped"] += count;
    return outcome;
  };

  const open = ({ file, stat }: OpenFile, position: Position): Tail =>
    createTail(own, file, stat, position, { append: counted, clock, log }, rotation);

  const follow = async (opened: OpenFile, position: Position) => {
    const tail = open(opened, position);
    tails.set(tail.key, tail);
    const { path, file, stat } = opened;
    // The content of a compressed file has no age of its own.
    if (path.endsWith(".gz"))
      ages.set(tail.key, async () => ({ ...timesOf(stat), isPacked: true }));
    else ages.set(tail.key, async () => ({ ...timesOf(await file.stat()), isPacked: false }));
    log.info({ source: name, path: position.path, offset: position.offset }, "following a file");
  };

  const rotation = createRotation(
    { name, rules: config.rules },
    { append: counted, checkpoints: dependencies.checkpoints, log },
    {
      tails,
      ages,
      isKnown: (key) => tails.has(key) || checkpoints().has(key),
      follow,
      createTail: open,
    },
  );

  const discovery = createDiscovery(config, dependencies, {
    name,
    tails,
    checkpoints,
    follow,
    rotation,
    signal,
  });

  const closeRotated = async () => {
    for (const tail of [...tails.values()]) {
      if (discovery.isFound(tail.key) || clock.monotonic() - tail.changedAt < rotatedIdleMs)
        continue;
      await tail.finish(signal);
      tails.delete(tail.key);
      ages.delete(tail.key);
      await tail.close();
    }
  };

  const fault = createReportedFault("source_failed", clock, `${name}: `);

  const tick = async () => {
    let read = false;
    const failed = new Set<string>();
    const attempt = async (path: string | undefined, act: () => Promise<unknown>) => {
      try {
        read = (await act()) === true || read;
      } catch (error) {
        signal.throwIfAborted();
        counts.failures += 1;
        fault.failed(error, path);
        // Once for all files that fail alike: a full disk would get a line of each.
        if (!failed.has(String(error)))
          log.error(
            { err: error, source: name, path },
            "a file could not be read or stored; retrying",
          );
        failed.add(String(error));
      }
    };
    if (discovery.isDue()) await attempt(undefined, () => discovery.run().then(closeRotated));
    await attempt(undefined, discovery.storeBegun);
    // One batch of each file in turn, so that neither a busy nor a failing file starves the others. None before its start is stored.
    if (!discovery.hasUnstored())
      for (const tail of [...tails.values()]) await attempt(tail.path, () => tail.step(signal));
    pauseMs = read ? pollMs.least : Math.min(pauseMs * 2, pollMs.most);
    if (failed.size === 0) fault.succeeded();
    if (failed.size > 0) await clock.sleep(retryMs, signal);
    else if (!read) await clock.sleep(pauseMs, signal);
  };

  const run = async () => {
    while (!signal.aborted) {
      try {
        await tick();
      } catch (error) {
        if (signal.aborted || error instanceof QueueClosedError) return;
        log.error({ err: error, source: name }, "reading files failed; retrying");
        await clock.sleep(retryMs, signal).catch(() => undefined);
      }
    }
  };

  return {
    name,
    start: async () => {
      await discovery.run().catch((error: unknown) => {
        // A full disk is no fault of the config: it is tried again, as later.
        if (!isDiskUnwritable(error)) throw error;
        log.error(
          { err: error, source: name },
          "positions or compressed files cannot be stored; retrying",
        );
      });
      running = run();
    },
    stop: async () => {
      stopping.abort(new Error("the source is stopping"));
      await running;
      for (const tail of tails.values()) await tail.close();
      tails.clear();
    },
    condition: fault.condition,
    counters: () => ({ files: tails.size, ...counts, ...rotation.counts() }),
  };
};

/** The dependencies with which discovery follows files. */
interface Following {
  name: string;
  tails: ReadonlyMap<string, Tail>;
  checkpoints(): Map<string, string>;
  follow(opened: OpenFile, position: Position): Promise<void>;
  rotation: FileRotation;
  signal: AbortSignal;
}

/** Finds the files of the patterns, and follows those that are not followed yet. */
const createDiscovery = (
  config: FileSourceConfig,
  { append, clock, log }: SourceDependencies,
  { name, tails, checkpoints, follow, rotation, signal }: Following,
) => {
  const found = new Set<string>();
  const unreadable = new Set<string>();
  let discoveredAt = Number.NEGATIVE_INFINITY;
  /** Paths whose files are followed and not yet those that had their names before. */
  const unsettled = new Set<string>();
  let isResumed = false;
  /** Where reading of files has begun, and the markers of patterns, until that is stored. */
  const begun: { source: string; key: string; value: string }[] = [];

  /** Returns where to start in a file that is not followed yet. */
  const startOf = async (
    { path, realPath, file, stat }: OpenFile,
    patternIsNew: boolean,
  ): Promise<Position> => {
    const saved = checkpoints().get(fileKey(stat));
    const position = saved === undefined ? null : parsePosition(saved);
    if (position !== null && position.offset <= stat.size && (await hasSameHead(file, position)))
      return position;
    if (position?.path === path) {
      // It was copied and truncated meanwhile; or the inode is that of a new file.
      const restart = await positionAt(file, position, 0);
      const truncation = {
        key: fileKey(stat),
        position,
        unreadBytes: null,
        restart,
        changedMs: stat.mtimeMs,
      };
      return await rotation.truncated(truncation, signal);
    }
    const directory = dirname(realPath);
    // Only if the path leads there through a symbolic link.
    const location = {
      path,
      directory: directory === dirname(path) ? undefined : directory,
      foundMs: stat.mtimeMs,
    };
    return await positionAt(
      file,
      location,
      patternIsNew && config.startAt === "end" ? stat.size : 0,
    );
  };

  const storeBegun = async () => {
    if (begun.length > 0) await append([], { checkpoints: [...begun], signal });
    begun.length = 0;
  };

  const run = async () => {
    found.clear();
    const known = checkpoints();
    for (const pattern of config.include) {
      const marker = `pattern:${pattern}`;
      const patternIsNew = !known.has(marker);
      for (const path of await findPaths(pattern, config)) {
        const opened = await openUnlessFollowed(path);
        if (opened === null) continue;
        const key = fileKey(opened.stat);
        const position = await startOf(opened, patternIsNew).catch(async (error: unknown) => {
          await opened.file.close();
          throw error;
        });
        begun.push({ source: checkpointSource, key, value: savePosition(position) });
        await follow(opened, position);
        unsettled.add(position.path);
      }
      // In one transaction with the marker: after a crash in between, "end" would mean a later end.
      if (patternIsNew) begun.push({ source: checkpointSource, key: marker, value: "" });
      await storeBegun();
    }
    discoveredAt = clock.monotonic();
    if (!isResumed) await resume();
    isResumed = true;
    for (const path of unsettled) {
      await rotation.followBetween(path);
      unsettled.delete(path);
    }
  };

  const openUnlessFollowed = async (path: string): Promise<OpenFile | null> => {
    try {
      const stat = await statRegularFile(path);
      // Node replaces other bytes of a name, by which the file cannot be opened: its lines would be missing without a word.
      if (stat === null && path.includes("\ufffd"))
        throw new ForbiddenFileError("its name is not UTF-8");
      if (stat === null) return null;
      found.add(fileKey(stat));
      if (tails.has(fileKey(stat))) return null;
      const opened = await openAllowedFile(path, config.rules);
      unreadable.delete(path);
      if (opened === null || !tails.has(fileKey(opened.stat))) return opened;
      await opened.file.close();
      return null;
    } catch (error) {
      if (unreadable.has(path)) return null;
      if (error instanceof ForbiddenFileError)
        log.warn({ source: name, path, reason: error.message }, "a file may not be read");
      else log.warn({ err: error, source: name, path }, "a file cannot be read");
      unreadable.add(path);
      return null;
    }
  };

  /** Resumes files that were rotated while the collector was stopped, and deletes the checkpoints of deleted ones. */
  const resume = async () => {
    const gone: [string, Position][] = [];
    for (const [key, value] of checkpoints()) {
      const position = parsePosition(value);
      if (position === null || tails.has(key) || !matches(config, position.path)) continue;
      const isIt = (stat: { dev: number; ino: number }) => fileKey(stat) === key;
      const opened =
        (await findRenamed(dirname(position.path), isIt, config.rules)) ??
        (position.directory === undefined
          ? null
          : await findRenamed(position.directory, isIt, config.rules));
      // A compressed file of which nothing was read may have the inode of another one.
      const isKnown = position.head.bytes > 0 || opened?.path.endsWith(".gz") === false;
      if (
        opened !== null &&
        isKnown &&
        position.offset <= opened.stat.size &&
        (await hasSameHead(opened.file, position))
      ) {
        await follow(opened, position);
        continue;
      }
      await opened?.file.close();
      gone.push([key, position]);
    }
    // Another file may have the inode of one that is gone.
    for (const [key, position] of gone) await rotation.resumeElsewhere(key, position, signal);
  };

  return {
    run,
    storeBegun,
    isDue: () => clock.monotonic() - discoveredAt >= discoveryMs,
    hasUnstored: () => begun.length > 0,
    /** Whether a pattern still matches the file. */
    isFound: (key: string) => found.has(key),
  };
};

const timesOf = ({ mtimeMs, birthtimeMs }: OpenFile["stat"]) => ({ mtimeMs, birthtimeMs });
