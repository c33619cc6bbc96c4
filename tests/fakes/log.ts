import { inspect } from "node:util";
import type { Log } from "#kit/log.ts";

/** One call of a log. */
export interface LogLine {
  level: keyof Log;
  fields: object;
  message: string;
}

/** A log that keeps its lines. */
export interface TestLog extends Log {
  readonly lines: readonly LogLine[];
  /** Returns all lines as text, with causes of errors, for tests that a secret is not logged. */
  text(): string;
}

/** Creates a log that keeps every level. */
export const createTestLog = (): TestLog => {
  const lines: LogLine[] = [];
  const at = (level: keyof Log) => (fields: object, message: string) => {
    lines.push({ level, fields, message });
  };
  return {
    debug: at("debug"),
    info: at("info"),
    warn: at("warn"),
    error: at("error"),
    lines,
    text: () => lines.map((line) => inspect(line, { depth: 12, maxStringLength: null })).join("\n"),
  };
};
