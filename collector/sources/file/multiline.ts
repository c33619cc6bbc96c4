import type { RE2JS } from "re2js";
import type { SourceConfig } from "#proto/collector-config/parse.ts";
import type { Lines } from "./lines.ts";
import { type TextLines, tracePresets } from "./trace-presets.ts";

/** How lines are joined to records: the section `multiline` of a config. */
export type MultilineConfig = NonNullable<Extract<SourceConfig, { type: "file" }>["multiline"]>;

/** Joins lines to records. */
export interface Multiline {
  readonly maxLines: number;
  /** An incomplete record is stored after so long without a change. */
  readonly timeoutMs: number;
  /** Returns the index after the last line of the record that begins at `first`; undefined if the lines do not show where it ends. */
  endOf(lines: TextLines, first: number): number | undefined;
}

/** The most instructions of a compiled pattern: each character of a line may cost as many steps. */
const instructionsMax = 1_000;

/** Compiles a user's pattern. Throws if it is none, or if it would be slow. The engine is loaded only here: most configs have no pattern. */
export const compilePattern = async (pattern: string): Promise<RE2JS> => {
  const { RE2JS } = await import("re2js");
  const compiled = RE2JS.compile(pattern);
  if (compiled.programSize() > instructionsMax) throw new RangeError("the pattern is too large");
  return compiled;
};

/** Returns a function that ends a record before the next line that does not continue it. */
const endBefore =
  (continues: (lines: TextLines, index: number) => boolean | undefined) =>
  (lines: TextLines, first: number): number | undefined => {
    for (let index = first + 1; index < lines.count; index++) {
      const isContinued = continues(lines, index);
      if (!isContinued) return isContinued === undefined ? undefined : index;
    }
    return undefined;
  };

const createEnd = async ({
  startPattern,
  endPattern,
  preset,
}: MultilineConfig): Promise<Multiline["endOf"]> => {
  if (startPattern !== undefined) {
    const start = await compilePattern(startPattern);
    return endBefore((lines, index) => !start.test(lines.text(index)));
  }
  if (endPattern !== undefined) {
    const end = await compilePattern(endPattern);
    return (lines, first) => {
      for (let index = first; index < lines.count; index++)
        if (end.test(lines.text(index))) return index + 1;
      return undefined;
    };
  }
  const { opens, continues } = tracePresets[preset ?? "java"];
  const endOfTrace = endBefore(continues);
  return (lines, first) =>
    (opens?.(lines.text(first)) ?? true) ? endOfTrace(lines, first) : first + 1;
};

/** Creates what joins lines as the config says. */
export const createMultiline = async (config: MultilineConfig): Promise<Multiline> => ({
  maxLines: config.maxLines,
  timeoutMs: config.timeoutMs,
  endOf: await createEnd(config),
});

/** How the lines of a read are joined. */
export interface JoinOptions {
  readonly multiline: Multiline;
  /** Decodes a part of the chunk. */
  text(start: number, end: number): string;
  /** Where the chunk ends, if no larger one can be read: a record that reaches so far is cut. */
  readonly cutAt?: number | undefined;
  /** Whether nothing continues the last record. */
  readonly isLast: boolean;
  /** Reports whether a record of this length still fits into the batch. */
  admits(length: number): boolean;
}

/** The lines of a chunk, `whole` of which are complete; before a cut, one more begins. */
interface SeenLines extends TextLines {
  readonly whole: number;
  startOf(index: number): number;
  endOf(index: number): number;
}

const seenLines = ({ bounds, next }: Lines, { text, cutAt = next }: JoinOptions): SeenLines => {
  const whole = bounds.length / 2;
  const startOf = (index: number): number => bounds[2 * index] ?? next;
  const endOf = (index: number): number => bounds[2 * index + 1] ?? cutAt;
  return {
    whole,
    count: cutAt === next ? whole : whole + 1,
    startOf,
    endOf,
    text: (index) => text(startOf(index), endOf(index)),
  };
};

/** Returns the index after the record that begins at `first`, and whether the record continues there; undefined while it is incomplete. */
const nextRecord = (
  seen: SeenLines,
  first: number,
  { multiline, cutAt, isLast }: JoinOptions,
): { end: number; isCut: boolean } | undefined => {
  const { endOf, maxLines } = multiline;
  // With the line behind a cut, and the one after it, which may decide about it.
  const countMax = first + maxLines + 2;
  const count = Math.min(seen.count, countMax);
  const shown =
    endOf({ count, text: seen.text }, first) ?? (count === countMax ? countMax : undefined);
  if (shown === undefined && !isLast && cutAt === undefined) return undefined;
  const end = Math.min(shown ?? seen.whole, first + maxLines, seen.whole);
  return { end, isCut: shown === undefined ? !isLast || end < seen.whole : end < shown };
};

/**
 * Joins the lines that were found to records: the bounds of each are the start of its first line and the end of its last one. What may still go
 * on stays unread, unless it `isLast`. Cuts a record of more than `maxLines`, or one that no chunk holds, and returns each piece alone.
 */
export const joinLines = (found: Lines, options: JoinOptions): Lines => {
  const seen = seenLines(found, options);
  const bounds: number[] = [];
  let first = 0;
  while (first < seen.whole) {
    const record = nextRecord(seen, first, options);
    if (record === undefined) break;
    const { end, isCut } = record;
    const from = seen.startOf(first);
    const to = seen.endOf(end - 1);
    const isAdmitted = options.admits(to - from);
    if (bounds.length > 0 && (isCut || !isAdmitted)) break;
    bounds.push(from, to);
    first = end;
    if (isCut) return { ...found, bounds, partial: true, next: seen.startOf(first) };
  }
  return { ...found, bounds, next: seen.startOf(first) };
};
