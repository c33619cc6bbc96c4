import * as v from "valibot";

const hasControl = (text: string): boolean => {
  for (let index = 0; index < text.length; index++) {
    const unit = text.charCodeAt(index);
    if (unit < 0x20 || (unit >= 0x7f && unit < 0xa0)) return true;
  }
  return false;
};

/** A name or id: 1 to `charactersMax` characters, without control characters (C0, DEL, C1) and lone surrogates. */
export const Identifier = (charactersMax: number) =>
  v.pipe(
    v.string("must be a string"),
    v.minLength(1, "must not be empty"),
    v.maxLength(charactersMax, `must be at most ${charactersMax} characters`),
    v.check((text) => !hasControl(text), "must not hold control characters"),
    v.check((text) => text.isWellFormed(), "must be well-formed Unicode"),
  );

/** Text of an operator: up to `charactersMax` characters, with line feeds and tabs and no other control characters. */
export const Prose = (charactersMax: number) =>
  v.pipe(
    v.string("must be a string"),
    v.maxLength(charactersMax, `must be at most ${charactersMax} characters`),
    v.check(
      (text) => Array.from(text).every((character) => !isProseControl(character)),
      "must not hold control characters",
    ),
    v.check((text) => text.isWellFormed(), "must be well-formed Unicode"),
  );

const isProseControl = (character: string): boolean => {
  const code = character.codePointAt(0) ?? 0;
  return (code < 0x20 && code !== 0x0a && code !== 0x09) || (code >= 0x7f && code < 0xa0);
};

/** Text for people: control characters are removed, then it is truncated to 500 characters. A lone surrogate is rejected. */
export const FreeText = v.pipe(
  v.string("must be a string"),
  v.check((text) => text.isWellFormed(), "must be well-formed Unicode"),
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
  v.string("must be a string"),
  v.regex(/^[0-9a-f]{64}$/, "must be 64 lowercase hexadecimal digits"),
);

const platformPattern = /^[a-z0-9_]{1,32}\/[a-z0-9_]{1,32}$/;

/** `os/arch`, such as `linux/amd64`. */
export const Platform = v.pipe(
  v.string("must be a string"),
  v.check(
    (text) => text.length <= 65 && platformPattern.test(text),
    "must be os/arch, such as linux/amd64",
  ),
);
