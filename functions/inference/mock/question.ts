/** A question of an operator, with the values that it names. */
export interface MockQuestion {
  /** Lower case, for matching words; the start of a long question. */
  text: string;
  /** The name of a host, as the operator wrote it. */
  host: string | null;
  /** A period such as `7 days` or `last week`. */
  periodSeconds: number | null;
  /** A time such as `since 2026-11-20` or `since 2026-11-20T10:00Z`, RFC 3339. */
  since: string | null;
  /** A version such as `1.4.0`. */
  version: string | null;
  /** A platform such as `windows/amd64`, or its first part. */
  platform: string | null;
  /** The number of rows that `top 10` asks for. */
  top: number | null;
}

/** Characters of a question that are read: far more than an operator types, and little enough for every pattern below. */
const readCharactersMax = 2_000;

/** Reads a question. */
export const readQuestion = (content: string): MockQuestion => {
  const start = content.slice(0, readCharactersMax);
  const text = start.toLowerCase();
  const top = /\b(?:top|first) (\d{1,3})\b/.exec(text)?.[1];
  return {
    text,
    host: hostOf(start),
    periodSeconds: periodOf(text),
    since: sinceOf(text),
    version: /\b\d{1,4}\.\d{1,4}\.\d{1,4}(?:-[0-9a-z.]{1,32})?\b/.exec(text)?.[0] ?? null,
    platform:
      /\b(?:linux|windows|darwin)(?:\/[a-z0-9]{1,16})?/.exec(text.replace(/\bmac ?os\b/g, "darwin"))?.[0] ?? null,
    top: top === undefined ? null : Number(top),
  };
};

const unitSeconds: Readonly<Record<string, number>> = {
  s: 1,
  sec: 1,
  second: 1,
  m: 60,
  min: 60,
  minute: 60,
  h: 3600,
  hour: 3600,
  d: 86_400,
  day: 86_400,
  w: 604_800,
  week: 604_800,
  month: 2_592_000,
};

const periodOf = (text: string): number | null => {
  const counted = /\b(\d{1,5}) ?(seconds?|sec|s|minutes?|min|m|hours?|h|days?|d|weeks?|w|months?)\b/.exec(text);
  if (counted) return Number(counted[1]) * (unitSeconds[(counted[2] ?? "").replace(/(?<=.)s$/, "")] ?? 1);
  if (/\byesterday\b/.test(text)) return 172_800;
  if (/\btoday\b/.test(text)) return 86_400;
  const named = /\b(?:last|past|this|an|a|next) (minute|hour|day|week|month)\b/.exec(text)?.[1];
  return named === undefined ? null : (unitSeconds[named] ?? null);
};

const sinceOf = (text: string): string | null => {
  const found = /\b(\d{4}-\d{2}-\d{2})(?:[t ](\d{2}:\d{2}))?/.exec(text);
  const time = found ? Date.parse(`${found[1]}T${found[2] ?? "00:00"}:00Z`) : Number.NaN;
  return Number.isNaN(time) ? null : new Date(time).toISOString();
};

/** Returns a quoted name, a URI, the name after `host`, or a word that looks like a host: with a letter, a digit and a hyphen or dot. */
const hostOf = (text: string): string | null => {
  const quoted = /["`“]([^"`“”\n]{1,256})["`”]/.exec(text)?.[1] ?? /(?<!\w)'([^'\n]{1,256})'(?!\w)/.exec(text)?.[1];
  if (quoted !== undefined) return quoted.trim() || null;
  const words = text.split(/\s+/).map((word) => word.replace(/^[([]+/, "").replace(/[?!.,;:)\]]{1,8}$/, ""));
  const uri = words.find((word) => /^[a-z]{2,10}:\/\/./i.test(word));
  if (uri !== undefined) return uri;
  const called = words.findIndex((word) => /^(host|device|collector|machine|hostname)$/i.test(word));
  const after = called === -1 ? undefined : words[called + 1];
  if (after !== undefined && isName(after)) return after;
  return words.find((word) => isName(word) && /[a-z]/i.test(word) && /[-.]/.test(word) && /\d/.test(word)) ?? null;
};

/** Not a version, a date, a period or a word with a hyphen such as `up-to-date`. */
const isName = (word: string): boolean =>
  word.length <= 256 && /^[\w.-]+$/.test(word) && /\d|[a-z]-[a-z]/i.test(word) && !/^v?\d+([.-]|[a-z]+$|$)/i.test(word);
