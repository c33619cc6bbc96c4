/*
 * The rules of a collector's config for the records of its sources. They work on the host, before the queue: what a rule takes never leaves
 * the host, and is counted under the rule's name.
 */
import * as v from "valibot";
import { Identifier, Path, section, Text, TextUpTo } from "#proto/values.ts";

/** The most rules of a config: an account counts what each took of each source, and is limited. */
export const rulesMax = 64;

/** The severities that a rule may name, the least first. */
export const severities = ["trace", "debug", "info", "warn", "error", "fatal"] as const;

/** A regular expression of RE2. Whether it is one, the collector checks, which has the engine. */
export const Pattern = v.pipe(
  v.string(),
  v.minBytes(1, "must not be empty"),
  v.maxBytes(1024, "must be at most 1 KiB"),
);

const Severity = v.picklist(severities);

/** A text that records are compared with. */
const Literal = v.pipe(
  Text,
  v.minLength(1, "must not be empty"),
  v.maxLength(1_024, "must be at most 1024 characters"),
);

const Condition = v.pipe(
  section({
    /** also of `keep`: a severity below `trace`, `debug`, `info`, `warn`, `error` or `fatal` */
    severity_below: v.optional(Severity),
    /** this severity, or a higher one */
    severity_at_least: v.optional(Severity),
    /** the path of its file, as `/var/log/app/*.log` */
    path: v.optional(Path),
    /** its text contains this */
    body_contains: v.optional(Literal),
    /** it has an attribute, or its resource has */
    attribute: v.optional(
      section({
        /** as `k8s.namespace.name` */
        key: Identifier(256),
        /** the whole value */
        equals: v.optional(Text),
        /** a part of the value */
        contains: v.optional(Literal),
      }),
    ),
  }),
  v.check((condition) => Object.keys(condition).length > 0, "must have at least one condition"),
);

/** The forms of secrets that a rule can name. */
export const redactPresets = [
  "card",
  "email",
  "bearer_token",
  "aws_key",
  "jwt",
  "url_password",
] as const;

/** Attributes of a file source, by which a record is known. */
const ownAttribute = /^file\./;

const actions = ["drop", "keep", "redact", "set", "sample"] as const;

const Processor = v.pipe(
  section({
    /** names the rule in counts and statements: up to 32 of `a-z`, `0-9`, `_` and `-` */
    name: v.pipe(
      Text,
      v.regex(/^[a-z0-9][a-z0-9_-]{0,31}$/, "must be up to 32 of a-z, 0-9, _ and -"),
    ),
    /** drops the records that meet all of these: */
    drop: v.optional(Condition),
    /** drops the records that do not meet one of these; what has no severity, path or text stays */
    keep: v.optional(Condition),
    /** replaces parts of texts and attributes: */
    redact: v.optional(
      v.pipe(
        section({
          /** `card`, `email`, `bearer_token`, `aws_key`, `jwt` and `url_password`, each as `[redacted:card]` */
          presets: v.optional(v.array(v.picklist(redactPresets)), []),
          /** up to 16 RE2 expressions; matches become `[redacted:NAME]`, with the name of the rule */
          patterns: v.optional(v.pipe(v.array(Pattern), v.maxLength(16)), []),
        }),
        v.check(
          ({ presets, patterns }) => presets.length + patterns.length > 0,
          "must have presets or patterns",
        ),
      ),
    ),
    /** sets attributes of lines, and of resources of OTLP */
    set: v.optional(
      v.pipe(
        v.record(Identifier(256), TextUpTo(256)),
        v.check(
          (set) => Object.keys(set).every((key) => !ownAttribute.test(key)),
          "must not set attributes of file sources",
        ),
        v.maxEntries(16, "must be at most 16 attributes"),
      ),
    ),
    /** keeps a share of the traces, by their ids; what has none stays */
    sample: v.optional(
      section({
        /** as 10, or 0.5 */
        percent: v.pipe(v.number(), v.minValue(0), v.maxValue(100)),
      }),
    ),
  }),
  v.check(
    (rule) => actions.filter((action) => rule[action] !== undefined).length === 1,
    `must have exactly one of ${actions.join(", ")}`,
  ),
);

/** A list of rules, which work in its order. */
export const Processors = v.array(Processor);

/** Returns the rules for all sources: the host's own, then those of `processors` that are not among them. */
export const hostRules = <Rule>({
  local_processors: own = [],
  processors,
}: {
  local_processors?: Rule[] | undefined;
  processors: Rule[];
}): Rule[] => {
  const known = new Set(own.map((rule) => JSON.stringify(rule)));
  return [...own, ...processors.filter((rule) => !known.has(JSON.stringify(rule)))];
};

/** Reports whether rules of a config have names of their own, and are not too many. */
export const hasDistinctRules = (rules: readonly { name: string }[]): boolean =>
  rules.length <= rulesMax && new Set(rules.map(({ name }) => name)).size === rules.length;
