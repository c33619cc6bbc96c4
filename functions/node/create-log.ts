import { pino } from "pino";
import type { Log } from "../core.ts";
import { describeError } from "../kit/describe-error.ts";

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

/** JSON leaves U+0085, U+2028 and U+2029 as they are, and some readers end a line there: they are escaped (I5). */
const oneLine = (line: string): string =>
  line.replace(/[\u0085\u2028\u2029]/g, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`);
