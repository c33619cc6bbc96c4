import { matchesGlob } from "node:path";
import type { ProcessorConfig } from "#proto/collector-config/parse.ts";
import { severities } from "#proto/collector-config/processors.ts";
import { journalPriorities } from "#proto/collector-config/sources.ts";
import { createRedact, type Redact } from "./redact.ts";

/** A log line, or a log record, span or metric of OTLP, as rules read it. */
export interface RuleItem {
  /** Its attributes, and those of its scope and resource. */
  readonly attributes: Readonly<Record<string, string>>;
  /** The line, or the body of a log record; undefined for a span or a metric. */
  readonly text: string | undefined;
  /** As OpenTelemetry numbers them, from 1 to 24; undefined if nobody knows. */
  readonly severity: () => number | undefined;
  /** In hex. */
  readonly traceId: string | undefined;
}

/** A rule of the config, which does one of three things. */
export interface RecordRule {
  readonly name: string;
  /** Reports whether a record stays. */
  readonly keeps?: (item: RuleItem) => boolean;
  /** Changes texts of a record. */
  readonly redact?: Redact;
  /** Sets attributes of a record. */
  readonly set?: Readonly<Record<string, string>>;
}

/** Whether a record meets a condition; undefined for one that has nothing of the kind. */
type Test = (item: RuleItem) => boolean | undefined;

type Condition = NonNullable<ProcessorConfig["drop"]>;
type Severity = (typeof severities)[number];

/** Creates a rule. Throws if one of its patterns is no expression. */
export const createRule = async (config: ProcessorConfig): Promise<RecordRule> => {
  const { name, drop, keep, redact, set, sample } = config;
  if (redact !== undefined) return { name, redact: await createRedact(name, redact) };
  if (set !== undefined) return { name, set };
  if (sample !== undefined) {
    const least = (1 - sample.percent / 100) * randomnessEnd;
    return { name, keeps: ({ traceId = "" }) => !(randomnessOf(traceId) < least) };
  }
  const test = createTest(drop ?? keep ?? {});
  return { name, keeps: (item) => test(item) !== (drop !== undefined) };
};

const randomnessEnd = 2 ** 48;
/** Reads the digits of a trace id that W3C has as random, but for the last two: other samplers keep the same traces. NaN without an id. */
const randomnessOf = (traceId: string): number => Number.parseInt(traceId.slice(18, 30), 16);

/** Creates the test of a condition: false if one part is not met, and undefined if nobody knows of one. */
const createTest = (condition: Condition): Test => {
  const tests = testsOf(condition);
  return (item) => {
    let met: boolean | undefined = true;
    for (const test of tests) {
      const result = test(item);
      if (result === false) return false;
      met = result && met;
    }
    return met;
  };
};

const testsOf = (condition: Condition): readonly Test[] => {
  const { severityBelow, severityAtLeast, path, bodyContains, attribute } = condition;
  const tests: Test[] = [];
  if (attribute !== undefined) tests.push(attributeTest(attribute));
  if (path !== undefined) tests.push(pathTest(path));
  if (bodyContains !== undefined) tests.push(({ text }) => text?.includes(bodyContains));
  if (severityBelow !== undefined) tests.push(severityTest(severityBelow, false));
  if (severityAtLeast !== undefined) tests.push(severityTest(severityAtLeast, true));
  return tests;
};

const attributeTest =
  ({ key, equals, contains }: NonNullable<Condition["attribute"]>): Test =>
  ({ attributes }) => {
    const value = Object.hasOwn(attributes, key) ? attributes[key] : undefined;
    return (
      value !== undefined &&
      (equals === undefined || value === equals) &&
      (contains === undefined || value.includes(contains))
    );
  };

/** Tests paths of files; remembers the last one, since all lines of a batch have the same. */
const pathTest = (pattern: string): Test => {
  let last: { path: string; matches: boolean } | undefined;
  return ({ attributes }) => {
    const path = attributes["file.path"] ?? attributes["log.file.path"];
    if (path === undefined) return undefined;
    if (last?.path !== path) last = { path, matches: matchesGlob(path, pattern) };
    return last.matches;
  };
};

/** OpenTelemetry has four numbers for each severity. */
const numberOf = (severity: Severity): number => 4 * severities.indexOf(severity) + 1;

const severityTest = (severity: Severity, isLeast: boolean): Test => {
  const bound = numberOf(severity);
  return (item) => {
    const number = item.severity();
    return number === undefined ? undefined : number >= bound === isLeast;
  };
};

/** Names of severities in logs; those of syslog (RFC 5424) among them. */
const severityWords: Readonly<Record<string, Severity>> = {
  trace: "trace",
  debug: "debug",
  info: "info",
  information: "info",
  informational: "info",
  notice: "info",
  warn: "warn",
  warning: "warn",
  err: "error",
  error: "error",
  severe: "error",
  crit: "fatal",
  critical: "fatal",
  alert: "fatal",
  emerg: "fatal",
  emergency: "fatal",
  fatal: "fatal",
  panic: "fatal",
};

/** So many characters of a line may have its severity. */
const headLength = 256;
const levelKey = /(?:^|["\s{,.])(?:level|lvl|severity|loglevel|log_level)"?\s*[=:]\s*"?([a-z]+)/i;
const words = Object.keys(severityWords).join("|").toUpperCase();
const levelWord = new RegExp(`(?:^|[\\s[(<|])(${words}|(?<=\\[)[a-z]+(?=\\]))(?=[\\s\\])>|:,]|$)`);

/**
 * Returns the severity of a line: the one that its sender gave it, else the value of a key such as `level`, or the first word in capitals or
 * brackets that names one, at its start.
 */
export const lineSeverity = (
  attributes: Readonly<Record<string, string>>,
  text: string,
): number | undefined => {
  const code = attributes["syslog.severity.code"];
  const head = text.slice(0, headLength);
  const word =
    code === undefined
      ? (levelKey.exec(head)?.[1] ?? levelWord.exec(head)?.[1])
      : journalPriorities[Number(code)];
  const named = wordSeverity(word ?? "");
  return named && numberOf(named);
};

const wordSeverity = (word: string): Severity | undefined => {
  const name = word.toLowerCase();
  return Object.hasOwn(severityWords, name) ? severityWords[name] : undefined;
};
