import { pino } from "pino";
import { describeError } from "../../kit/describe-error.ts";
import type { Log } from "../../kit/log.ts";
import { oneLine } from "../../kit/log.ts";

/** A log that writes one JSON object a line to stdout; `level` and above. */
export const createLog = (level: string): Log =>
  pino({
    level,
    base: null,
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (label) => ({ level: label }) },
    serializers: { err: (error: unknown) => describeError(error) },
    hooks: { streamWrite: oneLine },
  });
