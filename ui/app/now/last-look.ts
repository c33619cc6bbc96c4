import * as v from "valibot";
import type { NowLine } from "#proto/now/report.ts";
import { readStoredText, storeText } from "../browser/stored-text.ts";
import { formatDuration } from "../format/format.ts";
import type { EarlierLook } from "./now-view.ts";

/** When a person saw the page, by core's clock in milliseconds, and the lines on it. */
const Look = v.object({ at: v.number(), lines: v.array(v.string()) });

/** The looks of a person that a browser keeps: the newest, and the one before it. */
const Looks = v.object({ last: Look, before: v.optional(Look) });

type Look = v.InferOutput<typeof Look>;
type Looks = v.InferOutput<typeof Looks>;

/** A person who comes back sooner is still looking: lines stay new while a person follows one of them and returns. */
const awayMs = 10 * 60_000;

/** Returns the looks after the page was seen again. */
export const nextLooks = (known: Looks | undefined, seen: Look): Looks => {
  if (known === undefined) return { last: seen };
  return seen.at - known.last.at > awayMs
    ? { last: seen, before: known.last }
    : { ...known, last: seen };
};

/** A line that ended and began anew is another one. */
const episodeOf = ({ key, since }: NowLine) => `${key} ${since ?? ""}`;

const Stored = v.pipe(v.string(), v.parseJson(), Looks);

/** Keeps in this browser that a person sees these lines now. Returns their look before; undefined without one. */
export const keepLook = (
  person: string,
  lines: readonly NowLine[],
  at: number,
): EarlierLook | undefined => {
  const name = `now:${person}`;
  const stored = v.safeParse(Stored, readStoredText(name));
  const looks = nextLooks(stored.success ? stored.output : undefined, {
    at,
    lines: lines.map(episodeOf),
  });
  storeText(name, JSON.stringify(looks));
  const { before } = looks;
  if (before === undefined) return undefined;
  const seen = new Set(before.lines);
  return {
    ago: formatDuration((at - before.at) / 1000),
    isNew: (line) => !seen.has(episodeOf(line)),
  };
};
