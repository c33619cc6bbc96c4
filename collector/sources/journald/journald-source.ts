/*
 * A `journald` source: runs `journalctl` and stores what it prints. Invariants:
 * - The cursor of the last entry is stored in one transaction with the records before it. After a stop, a crash or a failed append,
 *   `journalctl` begins with that entry again, so that none is stored twice or passed over.
 * - What it prints first is that entry or a copy of it, or entries were deleted; so they were where the numbers of entries have a hole.
 *   `--after-cursor` would hide the first, and a selection by `journalctl` the second. `--merge` is what lets `--follow` read earlier boots.
 * - `journalctl` waits while an append waits for room in the queue.
 */
import { readFile } from "node:fs/promises";
import { QueueClosedError } from "#collector/queue/errors.ts";
import { addFileGaps, fileGapSource } from "#collector/queue/file-gaps.ts";
import type { Checkpoint, NewRecord } from "#collector/queue/record.ts";
import { createReportedFault } from "#collector/queue/reported-fault.ts";
import { dayMs, minuteMs, rfc3339 } from "#kit/clock.ts";
import type { PositionedSourceDependencies, Source, SourceWarning } from "../source.ts";
import { createExportParser, fieldText, type JournalEntry } from "./export-format.ts";
import {
  createJournalReading,
  type JournalBatch,
  type JournalGap,
  timeOfCursor,
} from "./journal-reading.ts";
import { createJournalFilter, type JournaldConfig, lineKind, recordOf } from "./journal-record.ts";
import { runJournalctl } from "./journalctl.ts";

/** The dependencies of a `journald` source. */
interface JournaldSourceDependencies extends PositionedSourceDependencies {
  /** Runs in place of `journalctl`. */
  readonly program?: string;
}

/** The name of the source, and of its checkpoints. */
const name = "journald";
const firstPauseMs = 1_000;
/** How often the cursor is stored while no entry is selected. */
const saveMs = 10_000;

/** Ends a run of `journalctl` before an entry to which journald may have moved others. Its message is that one's cursor. */
class JournalMoved extends Error {}
/** So often `journalctl` begins again to wait for the end of a move: for a minute, by the pauses. */
const movesMax = 6;

/** Follows a journal, and starts `journalctl` again whenever it ends. */
export const createJournaldSource = (
  config: JournaldConfig,
  dependencies: JournaldSourceDependencies,
): Source => {
  const { clock, log, program = "journalctl" } = dependencies;
  const stopping = new AbortController();
  const { signal } = stopping;
  const fault = createReportedFault("source_failed", clock, `${name}: `);
  const storing = createStoring(config, dependencies, signal);
  let running: Promise<void> = Promise.resolve();
  let isReading = false;
  let failures = 0;

  const print = async (
    options: readonly string[],
    onEntries: (entries: readonly JournalEntry[]) => void | Promise<void>,
  ) => {
    let entries: JournalEntry[] = [];
    const parse = createExportParser((entry) => entries.push(entry));
    const onOutput = (chunk: Buffer) => {
      entries = [];
      parse(chunk);
      return onEntries(entries);
    };
    const args = ["--output=export", ...options, ...(await journalOf(config))];
    await runJournalctl({ program, args, onOutput, signal });
  };

  const findLast = async (): Promise<string> => {
    let last = "";
    await print(["--lines=1"], ([entry]) => {
      if (entry) last = fieldText(entry, "__CURSOR") ?? "";
    });
    return last;
  };

  const follow = async (moved: string | null | undefined) => {
    const start = storing.cursor() ?? (config.startAt === "end" ? await findLast() : "");
    await storing.begin(start);
    const read = createJournalReading(start, moved);
    const options = ["--follow", "--merge", "--no-tail", ...(start ? [`--cursor=${start}`] : [])];
    isReading = true;
    await print(options, async (entries) => {
      const batch = read(entries);
      await storing.store(batch);
      if (batch.moved !== undefined) throw new JournalMoved(batch.moved);
    });
    throw new Error("journalctl ended");
  };

  /** Reports a failure. Returns what the next run has to know of a move. */
  const endRun = (error: unknown, pauses: number): string | null | undefined => {
    if (error instanceof JournalMoved) return pauses < movesMax ? error.message : null;
    failures += 1;
    fault.failed(error, config.directory);
    log.error({ err: error, source: name }, "the journal cannot be read or stored; retrying");
    return undefined;
  };

  const run = async () => {
    let moved: string | null | undefined;
    for (let pauses = 0; !signal.aborted; pauses += 1) {
      const { stored } = storing.counters();
      try {
        await follow(moved);
      } catch (error) {
        isReading = false;
        if (signal.aborted || error instanceof QueueClosedError) break;
        moved = endRun(error, pauses);
      }
      if (storing.counters().stored > stored) pauses = 0;
      await clock
        .sleep(Math.min(minuteMs, firstPauseMs * 2 ** pauses), signal)
        .catch(() => undefined);
    }
    // What is not saved is read again.
    await storing.save().catch(() => undefined);
  };

  return {
    name,
    start: async (options) => {
      if (!options?.retries) await findLast();
      running = run();
    },
    stop: async () => {
      stopping.abort(new Error("the source is stopping"));
      await running;
    },
    condition: () => {
      if (isReading) fault.succeeded();
      return fault.condition();
    },
    warnings: storing.warnings,
    counters: () => ({ ...storing.counters(), failures }),
  };
};

/** Returns the options that select the journal. `--merge` alone would read those of other machines too. */
const journalOf = async ({ directory, namespace }: JournaldConfig): Promise<string[]> => {
  if (directory !== undefined) return [`--directory=${directory}`];
  const machineId = await readFile("/etc/machine-id", "utf8").catch(() => "");
  return [
    ...(namespace === undefined ? [] : [`--namespace=${namespace}`]),
    ...(machineId === "" ? [] : [`_MACHINE_ID=${machineId.trim()}`]),
  ];
};

/** Creates what stores the entries of a source together with its cursor. */
const createStoring = (
  config: JournaldConfig,
  { append, refused, checkpoints, clock, log }: JournaldSourceDependencies,
  signal: AbortSignal,
) => {
  const selects = createJournalFilter(config);
  const { directory = "", namespace = "", units, identifiers, priority } = config;
  const journal = `${directory}\n${namespace}\n`;
  const key = journal + JSON.stringify([units, identifiers, priority]);
  const counts = {
    stored: 0,
    dropped: 0,
    gaps: 0,
    lost_entries: 0,
    repeated: 0,
    malformed: 0,
    cut_fields: 0,
  };
  let cursor = findCursor(checkpoints(name), journal, key);
  let savedCursor = checkpoints(name).get(key);
  let savedAt = clock.monotonic();
  let lastLoss: { at: number; message: string } | undefined;

  const put = async (
    records: readonly NewRecord[],
    next: string,
    gaps: readonly JournalGap[] = [],
  ) => {
    const saved: Checkpoint[] = [{ source: name, key, value: next }];
    if (gaps.length > 0)
      saved.push(
        addFileGaps(
          checkpoints(fileGapSource),
          name + key,
          gaps.map(() => 0),
        ),
      );
    const outcome = await append(records, { checkpoints: saved, signal });
    cursor = next;
    savedCursor = next;
    savedAt = clock.monotonic();
    counts[outcome] += records.length;
  };

  const reportGaps = (gaps: readonly JournalGap[]) => {
    counts.gaps += gaps.length;
    const known = gaps.reduce((sum, { entries = 0 }) => sum + entries, 0);
    counts.lost_entries += known;
    const message = describeGaps(gaps, known);
    lastLoss = { at: clock.monotonic(), message };
    log.warn({ source: name, gaps: gaps.length }, message);
  };

  return {
    cursor: () => cursor,
    /** Stores where the journal begins, so that nothing before its first record is passed over by a restart. */
    begin: async (start: string) => {
      if (savedCursor === undefined) await put([], start);
    },
    store: async ({ entries, gaps, malformed, repeated, cursor: next }: JournalBatch) => {
      counts.repeated += repeated;
      const selected = entries.filter(selects);
      const isDue = clock.monotonic() - savedAt >= saveMs;
      if (selected.length + gaps.length + malformed === 0 && !isDue) {
        cursor = next;
        return;
      }
      const observed = { source: name, observedAtMs: clock.now() };
      await put(
        selected.map((entry) => recordOf(entry, observed)),
        next,
        gaps,
      );
      counts.cut_fields += selected.reduce((sum, { cut }) => sum + cut, 0);
      counts.malformed += malformed;
      if (malformed > 0) refused("malformed", { kind: lineKind, source: name, records: malformed });
      if (gaps.length > 0) reportGaps(gaps);
    },
    save: async () => {
      if (cursor !== undefined && cursor !== savedCursor) await put([], cursor);
    },
    counters: () => ({ ...counts }),
    warnings: (): SourceWarning[] =>
      lastLoss && clock.monotonic() - lastLoss.at < dayMs
        ? [
            {
              code: "journal_gap",
              level: "warning",
              path: directory || "the journal",
              count: 1,
              message: lastLoss.message,
            },
          ]
        : [],
  };
};

/** Returns where a journal was read up to: by this source, or else by the one that read the farthest with another selection. */
const findCursor = (
  saved: ReadonlyMap<string, string>,
  journal: string,
  key: string,
): string | undefined =>
  saved.get(key) ??
  [...saved]
    .flatMap(([other, cursor]) => (other.startsWith(journal) ? [cursor] : []))
    .toSorted((one, other) => timeOfCursor(one) - timeOfCursor(other))
    .at(-1);

const describeGaps = (gaps: readonly JournalGap[], known: number): string => {
  const isKnown = gaps.every(({ entries }) => entries !== undefined);
  const entries = isKnown ? `${known} entries` : "an unknown number of entries";
  const [from, to] = [gaps.at(0)?.fromMs ?? 0, gaps.at(-1)?.toMs ?? 0].map(rfc3339);
  return `${entries} between ${from} and ${to} were gone before they were read; raise SystemMaxUse= or RuntimeMaxUse= in journald.conf`;
};
