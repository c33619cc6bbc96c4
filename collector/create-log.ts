import pino from "pino";
import type { CollectorConfig } from "../proto/collector-config/parse.ts";
import type { Output } from "./env.ts";
import type { Log } from "./log.ts";

/** U+0085, U+2028 and U+2029 end a line for many readers, and JSON leaves them as they are. */
const lineEnds = /[\u0085\u2028\u2029]/g;
const escaped = (character: string): string => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;

/** Node's TLS and SQLite errors carry certificates and statements as properties: only these are told. */
const describeError = (error: unknown): object => {
  if (!(error instanceof Error)) return { message: "not an error" };
  const code = "code" in error && typeof error.code === "string" ? error.code : undefined;
  const cause = error.cause instanceof Error ? describeError(error.cause) : undefined;
  return { type: error.name, message: error.message, ...(code ? { code } : {}), ...(cause ? { cause } : {}) };
};

/**
 * A pino log: one record is one line whatever its fields hold. `json` as pino writes it, times in RFC 3339; `text` for people,
 * `time LEVEL message {fields}`.
 */
export const createLog = ({ level, format }: CollectorConfig["log"], output: Output): Log => {
  const write = (line: string) => output.write(line.replace(lineEnds, escaped));
  return pino(
    {
      level,
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      serializers: { err: describeError },
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
