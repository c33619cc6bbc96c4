import { type Clock, callAfter, minuteMs, rfc3339 } from "./clock.ts";
import { describeError } from "./describe-error.ts";
import { type Log, oneLine } from "./log.ts";

interface LogSettings {
  level: string;
  format: "json" | "text";
}

/** A log whose level and format can change while its users keep it. */
export interface LineLog extends Log {
  reload(settings: LogSettings): void;
  /** Writes the counts of repeated lines. Call it at the end. */
  flush(): void;
}

type Level = keyof Log;
const levels: readonly string[] = ["debug", "info", "warn", "error", "silent"];

/** How long repeated warnings and errors are counted before the count is written, and the most different ones at once. */
const counting = { ms: minuteMs, linesMax: 1_000 };
/** With more unread bytes than this the reader is stuck: further lines are dropped, and their count is written before the next one. */
const waitingBytesMax = 1024 * 1024;

/**
 * Creates a log of one line for each record, with any field values. `json` is `level`, `time` (RFC 3339), the fields and `msg`; `text` is
 * `time LEVEL message {fields}`. Counts an equal warning or error within a minute (`repeated`) instead of writing it: an outage repeats its error
 * for hours, perhaps because the disk is full. Writes at most `framesMax` lines of an error's stack.
 */
export const createLineLog = (
  initial: LogSettings,
  output: { write(text: string): unknown; readonly writableLength?: number },
  clock: Pick<Clock, "now" | "sleep">,
  framesMax = 0,
): LineLog => {
  let settings = initial;
  let dropped = 0;
  const counted = new Map<
    string,
    { level: Level; fields: object; message: string; repeated: number }
  >();
  let cancel: () => void = () => undefined;

  const write = (level: Level, json: string, message: string) => {
    if ((output.writableLength ?? 0) > waitingBytesMax) {
      dropped += 1;
      return;
    }
    const lost = dropped;
    dropped = 0;
    if (lost > 0) write("warn", `{"dropped":${lost}}`, "nothing read this log: lines were dropped");
    const line = settings.format === "json" ? asJson : asText;
    output.write(`${oneLine(line(level, rfc3339(clock.now()), message, json))}\n`);
  };

  const flush = () => {
    cancel();
    for (const { level, fields, message, repeated } of counted.values())
      if (repeated > 0) write(level, stringify({ ...fields, repeated }, framesMax), message);
    counted.clear();
  };

  const logAt = (level: Level) => (fields: object, message: string) => {
    if (levels.indexOf(level) < levels.indexOf(settings.level)) return;
    const json = stringify(fields, framesMax);
    if (level === "warn" || level === "error") {
      const key = `${level} ${message} ${json}`;
      const known = counted.get(key);
      if (known !== undefined) {
        known.repeated += 1;
        return;
      }
      if (counted.size === counting.linesMax) flush();
      if (counted.size === 0) cancel = callAfter(clock, counting.ms, flush);
      counted.set(key, { level, fields, message, repeated: 0 });
    }
    write(level, json, message);
  };
  return {
    debug: logAt("debug"),
    info: logAt("info"),
    warn: logAt("warn"),
    error: logAt("error"),
    reload: (changed) => {
      settings = changed;
    },
    flush,
  };
};

const asJson = (level: string, time: string, msg: string, json: string) => {
  const members = json.slice(1, -1);
  return `{"level":"${level}","time":"${time}",${members}${members === "" ? "" : ","}"msg":${JSON.stringify(msg)}}`;
};

const asText = (level: string, time: string, msg: string, json: string) => {
  // JSON.stringify escapes line ends and other control characters of the message; its quotes are cut off.
  return `${time} ${level.toUpperCase().padEnd(5)} ${JSON.stringify(msg).slice(1, -1)}${json === "{}" ? "" : ` ${json}`}`;
};

/** Returns fields as one JSON object, or a placeholder if they cannot be serialised. */
const stringify = (fields: object, framesMax: number): string => {
  try {
    return JSON.stringify({ ...fields }, (key, value: unknown) => {
      if (key === "err") return describeError(value, framesMax);
      return typeof value === "bigint" ? String(value) : value;
    });
  } catch {
    return '{"fields":"cannot be written as JSON"}';
  }
};
