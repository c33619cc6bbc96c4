/*
 * The queue's high-water mark, in a file beside its database: damage that rolls commits back, such as a lost WAL, leaves a database that is
 * sound and too old, and nothing in it can show that. Invariants:
 * - A line is written after the commit that it describes, and never synced. The file is therefore a lower bound: after a kill or a power
 *   cut the database may have more, and never less unless it was damaged.
 * - Each line has its checksum. A torn or corrupt one is skipped, and those before it still count.
 */
import { closeSync, constants, openSync, readFileSync, renameSync, writeSync } from "node:fs";
import { crc32 } from "node:zlib";
import * as v from "valibot";
import type { AgeReading } from "./age.ts";
import { type QueueState, queueFiles } from "./format.ts";
import type { Checkpoint } from "./record.ts";

/** The high-water mark: the least that the queue has held. */
export interface Watermark {
  lastSequence: number;
  records: number;
  /** The queue's time; undefined in a watermark of an earlier version. */
  reading: AgeReading | undefined;
  checkpoints: readonly Checkpoint[];
  /** The sequence up to which core has everything: it acknowledges in order. */
  sentThrough: number;
  /** The changes of checkpoints up to there, the last one of each key; undefined if the watermark begins later. */
  sentCheckpoints: readonly Checkpoint[] | undefined;
}

const Line = v.tuple([
  v.pipe(v.number(), v.safeInteger(), v.minValue(0)),
  v.pipe(v.number(), v.safeInteger(), v.minValue(0)),
  v.array(v.tuple([v.string(), v.string(), v.nullable(v.string())])),
  // An earlier version ignores it.
  v.optional(v.tuple([v.number(), v.number()])),
]);

/** Reads the watermark of the queue in `dir`; undefined if it has none, or none that can be read. */
export const readWatermark = (dir: string): Watermark | undefined => {
  const lines = linesOf(queueFiles(dir).watermark).flatMap((text) => parseLine(text) ?? []);
  const newest = lines.at(-1);
  if (newest === undefined) return undefined;
  const { lastSequence, records, reading } = newest;
  const sentThrough = lastSequence - records;
  const sent = lines.filter((line) => line.lastSequence <= sentThrough);
  return {
    lastSequence,
    records,
    reading,
    sentThrough,
    checkpoints: lastOfEach(lines).filter(({ value }) => value !== null),
    sentCheckpoints: sent.length === 0 ? undefined : lastOfEach(sent),
  };
};

/** Returns the last change of each checkpoint. */
const lastOfEach = (lines: readonly WatermarkLine[]): Checkpoint[] => {
  const last = new Map<string, Checkpoint>();
  for (const { changed } of lines)
    for (const [source, key, value] of changed)
      last.set(JSON.stringify([source, key]), { source, key, value });
  return [...last.values()];
};

interface WatermarkLine extends Pick<Watermark, "lastSequence" | "records" | "reading"> {
  changed: v.InferOutput<typeof Line>[2];
}

const linesOf = (path: string): string[] => {
  try {
    return readFileSync(path, "latin1").split("\n");
  } catch {
    return [];
  }
};

const parseLine = (text: string): WatermarkLine | undefined => {
  const json = Buffer.from(text.slice(9), "latin1");
  if (json.length === 0 || text.slice(0, 9) !== `${checksumOf(json)} `) return undefined;
  const parsed = v.safeParse(Line, JSON.parse(json.toString()));
  if (!parsed.success) return undefined;
  const [lastSequence, records, changed, reading] = parsed.output;
  return {
    lastSequence,
    records,
    changed,
    reading: reading && { ageMs: reading[0], wallMs: reading[1] },
  };
};

const checksumOf = (json: Uint8Array): string => crc32(json).toString(16).padStart(8, "0");

/**
 * Returns how many records a queue in `state` lacks of those that it is known to have held: at most this many were stored after its last
 * commit and not yet acknowledged.
 */
export const missingRecords = (
  watermark: Watermark | undefined,
  { nextSequence }: Pick<QueueState, "nextSequence">,
): number =>
  watermark === undefined
    ? 0
    : Math.min(watermark.records, Math.max(0, watermark.lastSequence - (nextSequence - 1)));

type WatermarkState = Pick<QueueState, "nextSequence" | "records" | "ageMs" | "wallMs">;

/** The watermark of an open queue. */
export type WatermarkWriter = ReturnType<typeof writeWatermark>;

const markBytesMax = 1024 * 1024;

/**
 * Replaces the watermark of the queue in `dir` by its current state, and continues it. Ignores every error of the file system: the queue does
 * not depend on its watermark.
 */
export const writeWatermark = (
  dir: string,
  state: WatermarkState,
  checkpoints: () => readonly Checkpoint[],
) => {
  const path = queueFiles(dir).watermark;
  let file: number | undefined;
  let bytes = 0;
  let rewriteAt = 0;

  const close = () => {
    if (file !== undefined) closeSync(file);
    file = undefined;
  };

  const write = (
    { nextSequence, records, ageMs, wallMs }: WatermarkState,
    changed: readonly Checkpoint[],
  ): void => {
    if (file === undefined) return;
    const fields = changed.map(({ source, key, value }) => [source, key, value]);
    const json = Buffer.from(JSON.stringify([nextSequence - 1, records, fields, [ageMs, wallMs]]));
    // The line end comes first, so that a line that was cut off spoils no other.
    bytes += writeSync(file, Buffer.concat([Buffer.from(`\n${checksumOf(json)} `), json]));
  };

  const rewrite = (line: WatermarkState): void => {
    close();
    const { O_WRONLY, O_CREAT, O_TRUNC, O_APPEND, O_NOFOLLOW } = constants;
    const next = `${path}.next`;
    file = openSync(next, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_NOFOLLOW, 0o600);
    bytes = 0;
    write(line, checkpoints());
    renameSync(next, path);
    rewriteAt = Math.max(markBytesMax, 4 * bytes);
  };

  const attempt = (act: () => void): void => {
    try {
      act();
    } catch {
      // Retried with the next commit.
    }
  };

  attempt(() => rewrite(state));
  return {
    /** Adds the state after a commit, and the checkpoints that it changed. */
    committed: (line: WatermarkState, changed: readonly Checkpoint[]) =>
      attempt(() =>
        file === undefined || bytes >= rewriteAt ? rewrite(line) : write(line, changed),
      ),
    close,
  };
};
