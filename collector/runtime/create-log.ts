import pino from "pino";
import { describeError } from "../../kit/describe-error.ts";
import type { Log } from "../../kit/log.ts";
import { oneLine } from "../../kit/log.ts";
import type { CollectorConfig } from "../../proto/collector-config/parse.ts";
import type { Output } from "../env.ts";

/**
 * A pino log: one record is one line whatever its fields hold. `json` as pino writes it, times in RFC 3339; `text` for people,
 * `time LEVEL message {fields}`.
 */
export const createLog = ({ level, format }: CollectorConfig["log"], output: Output): Log => {
  const write = (line: string) => output.write(oneLine(line));
  return pino(
    {
      level,
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      // Without stacks: who reads this log runs hosts, and an outage repeats its error for hours.
      serializers: { err: (error: unknown) => describeError(error, 0) },
    },
    { write: format === "json" ? write : (line: string) => write(asText(line)) },
  );
};

const asText = (line: string): string => {
  const { time, level, msg, ...fields } = JSON.parse(line) as { time: string; level: string; msg: string };
  const rest = Object.keys(fields).length === 0 ? "" : ` ${JSON.stringify(fields)}`;
  // JSON.stringify of the message escapes line ends and other controls; its quotes are not wanted here.
  return `${time} ${level.toUpperCase().padEnd(5)} ${JSON.stringify(msg).slice(1, -1)}${rest}\n`;
};
