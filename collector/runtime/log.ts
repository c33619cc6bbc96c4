import { type Clock, rfc3339 } from "../../kit/clock.ts";
import { describeError } from "../../kit/describe-error.ts";
import { type Log, oneLine } from "../../kit/log.ts";
import type { CollectorConfig } from "../../proto/collector-config/parse.ts";
import type { Output } from "../env.ts";

type LogSettings = CollectorConfig["log"];

/** A log whose level and format can change while its users keep it. */
export interface ReloadableLog extends Log {
  reload(settings: LogSettings): void;
}

const levels = ["debug", "info", "warn", "error"] as const;

/**
 * Creates the collector's log: one line for each record, with any field values. `json` is pino's format with times in RFC 3339;
 * `text` is `time LEVEL message {fields}`. By hand, because pino takes a tenth of the collector's start.
 */
export const createCollectorLog = (initial: LogSettings, output: Output, clock: Pick<Clock, "now">): ReloadableLog => {
  let settings = initial;
  const logAt = (level: (typeof levels)[number]) => (fields: object, message: string) => {
    if (levels.indexOf(level) < levels.indexOf(settings.level)) return;
    const line = settings.format === "json" ? asJson : asText;
    output.write(`${oneLine(line(level, rfc3339(clock.now()), message, fields))}\n`);
  };
  return {
    debug: logAt("debug"),
    info: logAt("info"),
    warn: logAt("warn"),
    error: logAt("error"),
    reload: (changed) => {
      settings = changed;
    },
  };
};

const asJson = (level: string, time: string, msg: string, fields: object): string => {
  const members = stringify(fields).slice(1, -1);
  return `{"level":"${level}","time":"${time}",${members}${members === "" ? "" : ","}"msg":${JSON.stringify(msg)}}`;
};

const asText = (level: string, time: string, msg: string, fields: object): string => {
  const json = stringify(fields);
  // JSON.stringify escapes line ends and other control characters of the message; its quotes are cut off.
  return `${time} ${level.toUpperCase().padEnd(5)} ${JSON.stringify(msg).slice(1, -1)}${json === "{}" ? "" : ` ${json}`}`;
};

/** Returns fields as one JSON object; without them, if they cannot be one. */
const stringify = (fields: object): string => {
  try {
    return JSON.stringify({ ...fields }, (key, value: unknown) => {
      // Without stacks: the reader runs hosts, and an outage repeats its error for hours.
      if (key === "err") return describeError(value, 0);
      return typeof value === "bigint" ? String(value) : value;
    });
  } catch {
    return '{"fields":"cannot be written as JSON"}';
  }
};
