import * as v from "valibot";

/** An id (UUIDv7) in a path or a body. Other text is 422, not 404. */
export const Id = v.pipe(v.string("must be a UUID"), v.uuid("must be a UUID"), v.toLowerCase());

/** Reports whether a text is an id as core writes it. */
export const isUuid = (text: string): boolean =>
  /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(text);

/** A timestamp in a response: RFC 3339 in UTC with milliseconds. */
export const IsoTimestamp = v.pipe(v.string(), v.isoTimestamp());

/** Reports whether a value is an object with members, not an array. */
export const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** A text of a body. */
export const Text = v.string("must be a string");

/** A text of a body, of at most so many characters. */
export const TextUpTo = (charactersMax: number) =>
  v.pipe(Text, v.maxLength(charactersMax, `must be at most ${charactersMax} characters`));

/** A boolean of a body. */
export const Flag = v.boolean("must be true or false");

/** A list of a body. */
export const ListOf = <Item extends v.GenericSchema>(item: Item) =>
  v.array(item, "must be an array");

/** A list of a body, of at most so many entries. */
export const ListUpTo = <Item extends v.GenericSchema>(max: number, item: Item) =>
  v.pipe(ListOf(item), v.maxLength(max, `must have at most ${max} entries`));

/** A list of a body, of at least one entry. */
export const FilledList = <Item extends v.GenericSchema>(item: Item) =>
  v.pipe(ListOf(item), v.minLength(1, "must have at least one entry"));

/** A list of a body, of at least one and at most so many entries. */
export const FilledListUpTo = <Item extends v.GenericSchema>(max: number, item: Item) =>
  v.pipe(FilledList(item), v.maxLength(max, `must have at most ${max} entries`));

/** The response of a list of `item`: one page. */
export const PageOf = <Item extends v.GenericSchema>(item: Item) =>
  v.strictObject({ items: v.array(item), next_cursor: TextOrNull });

/** A count in a response. */
export const WholeNumber = (min = 0) => v.pipe(v.number(), v.integer(), v.minValue(min));

/** A text, a number or a timestamp that a response may lack. */
export const TextOrNull = v.nullable(v.string());
export const NumberOrNull = v.nullable(v.number());
export const TimestampOrNull = v.nullable(IsoTimestamp);

/** A time in which core could not receive. No threshold of a host counts it. */
export const OutageView = v.strictObject({
  began_at: IsoTimestamp,
  /** Null while it lasts. */
  ended_at: TimestampOrNull,
  /** The silence of hosts counts from this time on, `return_seconds` after the end. */
  counted_from: TimestampOrNull,
  /** True if cores went on, and the database's clock skipped this time; absent otherwise. */
  is_clock_skip: v.optional(v.boolean()),
});

/** A time in which core could not receive. */
export type OutageView = v.InferOutput<typeof OutageView>;

/** An integer of a body. */
export const Integer = (min: number, max: number) =>
  v.pipe(
    v.number("must be an integer"),
    v.integer("must be an integer"),
    v.minValue(min, `must be at least ${min}`),
    v.maxValue(max, `must be at most ${max}`),
  );

/** A whole number in a query, documented as an integer. */
export const QueryInteger = (min: number, max: number) =>
  v.pipe(
    v.string("must be given once"),
    v.regex(/^\d{1,12}$/, "must be a whole number"),
    v.metadata({ integer: { minimum: min, maximum: max } }),
    v.transform(Number),
    v.minValue(min, `must be at least ${min}`),
    v.maxValue(max, `must be at most ${max}`),
  );

/** A flag of a query: `true`, or `false` by default. */
export const QueryFlag = v.optional(
  v.pipe(
    v.picklist(["true", "false"], "must be true or false"),
    v.transform((text) => text === "true"),
  ),
  "false",
);

/** A query field that may be repeated, as a list; `expected` is the fault of another value, and `tooMany` of more than `countMax`. */
export const Repeatable = <Item extends v.GenericSchema>(
  item: Item,
  { expected, countMax, tooMany }: { expected: string; countMax: number; tooMany: string },
) =>
  v.union(
    [
      v.pipe(v.array(item), v.maxLength(countMax, tooMany)),
      v.pipe(
        item,
        v.transform((single) => [single]),
      ),
    ],
    expected,
  );

/** An integer from `min` to 2^53 - 1. */
export const Count = (min = 0) =>
  v.pipe(
    v.number("must be an integer"),
    v.check((value) => Number.isSafeInteger(value), "must be an integer within 2^53 - 1"),
    v.minValue(min, `must be at least ${min}`),
  );

/** A snake_case name in camelCase: `created_at` as `createdAt`. */
export type CamelCase<Name> = Name extends `${infer First}_${infer Rest}`
  ? `${First}${Capitalize<CamelCase<Rest>>}`
  : Name;

/** Converts snake_case to camelCase. */
export const camelCase = (name: string): string =>
  name.replace(/_(\w)/g, (_, first: string) => first.toUpperCase());

/** Converts camelCase to snake_case. */
export const snakeCase = (name: string): string =>
  name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

/** Returns a body with its names in camelCase. */
export const inCamelCase = <Body extends object>(body: Body) =>
  Object.fromEntries(Object.entries(body).map(([name, value]) => [camelCase(name), value])) as {
    [Name in keyof Body as CamelCase<Name>]: Body[Name];
  };

/** Reports whether a text has a control character (C0, DEL, C1) other than those of `allowed`. */
const hasControl = (text: string, allowed = "") => {
  for (let index = 0; index < text.length; index++) {
    const unit = text.charCodeAt(index);
    const isControl = unit < 0x20 || (unit >= 0x7f && unit < 0xa0);
    if (isControl && !allowed.includes(text.charAt(index))) return true;
  }
  return false;
};

const noControl = (allowed = "") =>
  v.check((text: string) => !hasControl(text, allowed), "must not hold control characters");

const wellFormed = v.check((text: string) => text.isWellFormed(), "must be well-formed Unicode");

/** A name or id: 1 to `charactersMax` characters, without control characters (C0, DEL, C1) and lone surrogates. */
export const Identifier = (charactersMax: number) =>
  v.pipe(
    Text,
    v.minLength(1, "must not be empty"),
    v.maxLength(charactersMax, `must be at most ${charactersMax} characters`),
    noControl(),
    wellFormed,
  );

/** Text of an operator: up to `charactersMax` characters, with line feeds and tabs and no other control characters. */
export const Prose = (charactersMax: number) =>
  v.pipe(TextUpTo(charactersMax), noControl("\n\t"), wellFormed);

/** Text for people: control characters are removed, then it is truncated to 500 characters. A lone surrogate is rejected. */
export const FreeText = v.pipe(
  Text,
  wellFormed,
  v.transform((text) => cutText(text, 500)),
);

/** Returns `text` without control characters, truncated to `charactersMax` code points. */
export const cutText = (text: string, charactersMax: number): string => {
  let kept = "";
  let count = 0;
  for (const character of text) {
    if (count === charactersMax) break;
    if (hasControl(character)) continue;
    kept += character;
    count += 1;
  }
  return kept;
};

/** A counter or size: an integer from 0 to 2^53 - 1. */
export const Counter = v.pipe(
  v.number("must be an integer"),
  v.check(
    (value) => Number.isSafeInteger(value) && value >= 0,
    "must be an integer from 0 to 2^53 - 1",
  ),
);

const rfc3339Pattern = /^(?!0000)\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?Z$/;

/** RFC 3339 in UTC (`Z`), at most nanoseconds. Rejects dates that do not exist, and the year 0. */
export const Timestamp = v.pipe(
  v.string("must be a time"),
  v.check(
    (text) => parseTimestamp(text) !== undefined,
    "must be an RFC 3339 time in UTC, such as 2026-01-31T08:00:00.000Z",
  ),
);

/** Returns the milliseconds since the epoch of a `Timestamp`, without finer digits; undefined for other text. */
export const parseTimestamp = (text: string): number | undefined => {
  if (text.length > 30 || !rfc3339Pattern.test(text)) return undefined;
  const ms = Date.parse(text);
  if (Number.isNaN(ms)) return undefined;
  // Date.parse turns 30 February into 2 March, and 24:00 into the next day.
  return new Date(ms).getUTCDate() === Number(text.slice(8, 10)) ? ms : undefined;
};

/** A `Timestamp` as a date. */
export const DateFromTimestamp = v.pipe(
  Timestamp,
  v.transform((text) => new Date(parseTimestamp(text) ?? 0)),
);

/** A `Timestamp` to store, cut to milliseconds: a database would round finer digits, possibly into year 10000. */
export const StoredTimestamp = v.pipe(
  Timestamp,
  // 24 characters are milliseconds already.
  v.transform((text) =>
    text.length === 24 ? text : new Date(parseTimestamp(text) ?? 0).toISOString(),
  ),
);

/** SHA-256 as 64 lowercase hexadecimal digits. */
export const Sha256Hex = v.pipe(
  Text,
  v.regex(/^[0-9a-f]{64}$/, "must be 64 lowercase hexadecimal digits"),
);

const platformPattern = /^[a-z0-9_]{1,32}\/[a-z0-9_]{1,32}$/;

/** `os/arch`, such as `linux/amd64`. */
export const Platform = v.pipe(
  Text,
  v.check(
    (text) => text.length <= 65 && platformPattern.test(text),
    "must be os/arch, such as linux/amd64",
  ),
);

const minute = /^(\d{4}-\d\d-\d\dT\d\d:\d\d)Z$/;

/** Parses a time in UTC, to the minute or finer, such as `2026-11-23T02:41Z`; undefined for other text. */
export const parsePastTime = (text: string): number | undefined =>
  parseTimestamp(text.replace(minute, "$1:00Z"));

/** Returns bytes as base64url without padding. */
export const toBase64url = (bytes: Uint8Array): string =>
  bytes.toBase64({ alphabet: "base64url", omitPadding: true });

/** Returns the bytes of canonical base64url; null for any other text, so that no two texts are one value. */
export const fromBase64url = (text: string): Uint8Array<ArrayBuffer> | null => {
  try {
    const bytes = Uint8Array.fromBase64(text, { alphabet: "base64url" });
    return toBase64url(bytes) === text ? bytes : null;
  } catch {
    return null;
  }
};

/** A mapping with exactly these keys. Valibot's own object schemas also accept a sequence. */
export const section = <const Entries extends v.ObjectEntries>(entries: Entries) =>
  v.pipe(v.unknown(), v.check(isRecord, "must be a mapping"), v.strictObject(entries));

/** An optional section; without it, its own defaults apply. */
export const optionalSection = <const Entries extends v.ObjectEntries>(entries: Entries) =>
  v.optional(section(entries), {});

/** The path of a file. */
export const Path = Identifier(4096);

/** A path that starts with `/`. */
export const AbsolutePath = v.pipe(
  Path,
  v.check((text) => text.startsWith("/"), "must be an absolute path"),
);

/** A whole number between two bounds. */
export const integerBetween = (min: number, max: number = Number.MAX_SAFE_INTEGER) =>
  v.pipe(
    v.number(),
    v.check(
      (value) => Number.isInteger(value) && value >= min && value <= max,
      max === Number.MAX_SAFE_INTEGER
        ? `must be an integer of at least ${min}`
        : `must be an integer between ${min} and ${max}`,
    ),
  );

/** The kinds of agents that core manages. An identity has one from its first enrollment on; so has a config. */
export const agentKinds = ["svc-collector", "otelcol"] as const;

/** One of `agentKinds`: `otelcol` is any agent that speaks OpAMP. */
export type AgentKind = (typeof agentKinds)[number];

/** What core knows of hosts by the kind of their agent. A host without a queue reports none, and its completeness is not proven. */
export const agentPromises: Readonly<
  Record<AgentKind, { hasQueue: boolean; completeness: "proven" | "not_proven" }>
> = {
  "svc-collector": { hasQueue: true, completeness: "proven" },
  otelcol: { hasQueue: false, completeness: "not_proven" },
};
