/*
 * Where records of several lines end, for the stack traces of languages: expressions checked by hand, since each line of a busy file is tested.
 * Each decision looks only at a line and its neighbors, so that the rest of a record that was cut is decided alike.
 */

/** The lines of one read as texts. */
export interface TextLines {
  readonly count: number;
  text(index: number): string;
}

/** Which lines are one record. */
export interface TracePreset {
  /** Reports whether a line may be the first of several; absent if any may. */
  opens?(line: string): boolean;
  /** Reports whether the line at `index` continues the record of the line before; undefined if only a later line shows it. */
  continues(lines: TextLines, index: number): boolean | undefined;
}

const isIndented = (line: string): boolean => line.startsWith(" ") || line.startsWith("\t");

const startsWithAny = (line: string, prefixes: readonly string[]): boolean =>
  prefixes.some((prefix) => line.startsWith(prefix));

const javaPrefixes = ["Caused by:", "Suppressed:", "... "];

const java: TracePreset = {
  continues: (lines, index) => {
    const line = lines.text(index);
    return isIndented(line) || startsWithAny(line, javaPrefixes);
  },
};

const dotnetPrefixes = ["---> ", "--- End of "];

const dotnet: TracePreset = {
  continues: (lines, index) => {
    const line = lines.text(index);
    const text = line.trimStart();
    return startsWithAny(text, dotnetPrefixes) || (isIndented(line) && text.startsWith("at "));
  },
};

const isTraceback = (line: string): boolean => line.includes("Traceback (most recent call last):");

const chains = [
  "During handling of the above exception, another exception occurred:",
  "The above exception was the direct cause of the following exception:",
];

/** A frame, or the last line before it; not a part of an exception group, which has its exceptions inside. */
const isBeforeException = (line: string): boolean =>
  isTraceback(line) || (isIndented(line) && !/^\s+[+|]/.test(line));

const python: TracePreset = {
  opens: (line) => isTraceback(line) || isIndented(line),
  continues: (lines, index) => {
    const line = lines.text(index);
    const before = lines.text(index - 1);
    if (chains.includes(line)) return before === "";
    if (line === "") {
      if (chains.includes(before)) return true;
      return index + 1 < lines.count ? chains.includes(lines.text(index + 1)) : undefined;
    }
    if (isTraceback(line))
      return before === "" && index > 1 && chains.includes(lines.text(index - 2));
    return isIndented(line) ? isTraceback(before) || isIndented(before) : isBeforeException(before);
  },
};

const goFirst = ["panic: ", "fatal error: ", "goroutine "];
const goNext = [
  "[signal ",
  "created by ",
  "runtime stack:",
  "...additional frames elided...",
  "exit status ",
];

/** The call of a function, as `main.(*Server).serve(0xc000012345, {0x1, 0x2})`. */
const isGoCall = (line: string): boolean => line.endsWith(")") && /^[^\s(]+\(/.test(line);

const go: TracePreset = {
  opens: (line) =>
    startsWithAny(line, goFirst) ||
    line.includes("http: panic serving ") ||
    isIndented(line) ||
    isGoCall(line),
  continues: (lines, index) => {
    const line = lines.text(index);
    if (line.startsWith("goroutine ")) return !isIndented(lines.text(index - 1));
    if (line !== "") return isIndented(line) || startsWithAny(line, goNext) || isGoCall(line);
    if (index + 1 === lines.count) return undefined;
    return startsWithAny(lines.text(index + 1), ["goroutine ", ...goNext]);
  },
};

/** The presets by their names in the config. */
export const tracePresets = { java, python, go, dotnet };
