import { inspect } from "node:util";
import type { Log } from "../../kit/log.ts";

/** One call of a log. */
export interface LogLine {
  level: keyof Log;
  fields: object;
  message: string;
}

/** A log that keeps what it is told. */
export interface TestLog extends Log {
  readonly lines: readonly LogLine[];
  /** Everything a reader of the log could see, causes of errors included: for tests that a secret is found nowhere. */
  text(): string;
}

/** Keeps every level, debug too. */
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
