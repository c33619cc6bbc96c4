import type { Fault } from "#proto/fleet-health/query-language/parse.ts";
import { readTime, writeQueryTime } from "#proto/fleet-health/query-language/times.ts";
import { splitWords } from "#proto/fleet-health/query-language/words.ts";

const head = "at:";

/** A query without its `at:`, with spaces in its place, so that faults keep their positions; the past time, to the second, and its faults. */
interface TimedQuery {
  rest: string;
  at: string | undefined;
  faults: readonly Fault[];
}

/** Removes the past time from a query, because it belongs to the page and not to its filter: `at:02:41` is the last 02:41, in UTC. */
export const splitTime = (query: string, now: Date): TimedQuery => {
  const words = splitWords(query).filter(({ text, bareLength }) =>
    text.slice(0, bareLength).toLowerCase().startsWith(head),
  );
  const [word, ...more] = words;
  if (word === undefined) return { rest: query, at: undefined, faults: [] };
  const at = readTime(word.text.slice(head.length), now);
  const { from, to } = more[0] ?? word;
  const message =
    more.length > 0
      ? "at: is given twice: keep one."
      : "Write a past time like 02:41 (UTC), yesterday, 2026-11-28T02:41 or 2h (ago).";
  return {
    rest: words.reduce(
      (rest, { from, to }) => rest.slice(0, from) + " ".repeat(to - from) + rest.slice(to),
      query,
    ),
    at,
    faults: at === undefined || more.length > 0 ? [{ from, to, message }] : [],
  };
};

/** Returns a past time of an address to the second, as `splitTime` has it. */
export const secondOf = (at: string | undefined): string | undefined =>
  at && `${new Date(at).toISOString().slice(0, 19)}Z`;

/** Writes a past time so that `splitTime` reads it; empty without one. */
export const writeAt = (at: string | undefined, now: Date): string =>
  at === undefined ? "" : head + writeQueryTime(secondOf(at) ?? at, now);
