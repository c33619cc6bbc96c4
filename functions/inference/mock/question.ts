/** A question of an operator, with the values that it names. */
export interface MockQuestion {
  /** Lower case, for matching words; the start of a long question. */
  text: string;
  /** The name of a host, as the operator wrote it. */
  host: string | null;
  /** A period such as `7 days` or `last week`. */
  periodSeconds: number | null;
  /** The number of rows that `top 10` asks for, else 10. */
  top: number;
}

/** Characters of a question that are read: far more than an operator types, and little enough for every pattern below. */
const readCharactersMax = 2_000;

/** Reads a question. */
export const readQuestion = (content: string): MockQuestion => {
  const start = content.slice(0, readCharactersMax);
  const text = start.toLowerCase();
  const top = Number(/\btop (\d{1,3})\b/.exec(text)?.[1] ?? 10);
  return { text, host: hostOf(start), periodSeconds: periodOf(text), top: Math.min(50, Math.max(1, top)) };
};

const unitSeconds: Readonly<Record<string, number>> = {
  second: 1,
  minute: 60,
  hour: 3600,
  day: 86_400,
  week: 604_800,
  month: 2_592_000,
};

const periodOf = (text: string): number | null => {
  const [, count = "1", unit = ""] =
    /\b(?:(\d{1,5}) ?|(?:last|past|this|next) )(second|minute|hour|day|week|month)s?\b/.exec(text) ?? [];
  return unit === "" ? null : Number(count) * (unitSeconds[unit] ?? 1);
};

/** Returns a quoted name, a URI, the name after `host`, or a word that looks like a host: with a letter, a digit and a hyphen or dot. */
const hostOf = (text: string): string | null => {
  const quoted = /["`“]([^"`“”\n]{1,256})["`”]/.exec(text)?.[1];
  if (quoted !== undefined) return quoted.trim() || null;
  const words = text.split(/\s+/).map((word) => word.replace(/^[([]+/, "").replace(/[?!.,;:)\]]{1,8}$/, ""));
  const after = words[words.findIndex((word) => /^(host|device|collector)$/i.test(word)) + 1];
  return (
    words.find((word) => /^[a-z]{2,10}:\/\/./i.test(word)) ??
    [after].find((word) => word !== undefined && isName(word)) ??
    words.find((word) => isName(word) && /[a-z]/i.test(word) && /[-.]/.test(word) && /\d/.test(word)) ??
    null
  );
};

/** Not a version, a date, a period or a word with a hyphen such as `up-to-date`. */
const isName = (word: string): boolean =>
  word.length <= 256 && /^[\w.-]+$/.test(word) && /\d|[a-z]-[a-z]/i.test(word) && !/^v?\d+([.-]|[a-z]+$|$)/i.test(word);
