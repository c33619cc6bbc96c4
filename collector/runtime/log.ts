import pino from "pino";
import { describeError } from "../../kit/describe-error.ts";
import { type Log, oneLine } from "../../kit/log.ts";
import type { CollectorConfig } from "../../proto/collector-config/parse.ts";
import type { Output } from "../env.ts";

type LogSettings = CollectorConfig["log"];

/** A log whose level and format can change while its users keep it. */
export interface ReloadableLog extends Log {
  reload(settings: LogSettings): void;
}

/**
 * Creates the collector's log: one line for each record, with any field values. `json` is pino's format with times in RFC 3339;
 * `text` is `time LEVEL message {fields}`.
 */
export const createCollectorLog = (settings: LogSettings, output: Output): ReloadableLog => {
  let log = createPinoLog(settings, output);
  return {
    debug: (fields, message) => log.debug(fields, message),
    info: (fields, message) => log.info(fields, message),
    warn: (fields, message) => log.warn(fields, message),
    error: (fields, message) => log.error(fields, message),
    reload: (changed) => {
      log = createPinoLog(changed, output);
    },
  };
};

const createPinoLog = ({ level, format }: LogSettings, output: Output): Log => {
  const write = (line: string) => output.write(oneLine(line));
  return pino(
    {
      level,
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      // Without stacks: the reader runs hosts, and an outage repeats its error for hours.
      serializers: { err: (error: unknown) => describeError(error, 0) },
    },
    { write: format === "json" ? write : (line: string) => write(asText(line)) },
  );
};

const asText = (line: string): string => {
  const { time, level, msg, ...fields } = JSON.parse(line) as { time: string; level: string; msg: string };
  const rest = Object.keys(fields).length === 0 ? "" : ` ${JSON.stringify(fields)}`;
  // JSON.stringify escapes line ends and other control characters of the message; its quotes are cut off.
  return `${time} ${level.toUpperCase().padEnd(5)} ${JSON.stringify(msg).slice(1, -1)}${rest}\n`;
};
