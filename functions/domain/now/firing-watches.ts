import type { TimedCore } from "#functions/core.ts";
import { findFiringWatches, type WatchRow } from "#functions/store/watch/watches.ts";
import { parseQuery } from "#proto/fleet-health/query-language/parse.ts";
import { formatCount, formatCountOf } from "#proto/format.ts";
import { plainLine } from "#proto/plain-text.ts";
import { withoutPastSilence } from "../watch/evaluate.ts";
import { atUtc, type FoundLine, factorSentence, fleetPath } from "./lines.ts";

/** Finds the watches that fire or that core cannot evaluate; a silence that has ended is none. */
const findWatches = async ({ db, clock }: TimedCore): Promise<WatchRow[]> => {
  const now = new Date(clock.now());
  return (await findFiringWatches(db)).map((row) => withoutPastSilence(row, now));
};

/** Returns a line for each watch that fires, unless it is silenced or another one explains it, and for each that core cannot evaluate. */
export const findWatchLines = async (core: TimedCore): Promise<FoundLine[]> => {
  const rows = (await findWatches(core)).filter(({ silencedUntil }) => silencedUntil === null);
  const ids = new Set(rows.map(({ id }) => id));
  const explained = Map.groupBy(rows, ({ explainedBy }) => explainedBy);
  return rows
    .filter(({ explainedBy }) => explainedBy === null || !ids.has(explainedBy))
    .map((row) => lineOf(row, explained.get(row.id)?.length ?? 0));
};

/** Returns which watches would have a line, but for their silence, in one sentence with the silence that ends first. */
export const describeSilenced = async (core: TimedCore): Promise<string | undefined> => {
  const [first, ...others] = (await findWatches(core))
    .flatMap(({ name, silencedUntil }) => (silencedUntil ? { name, until: +silencedUntil } : []))
    .sort((a, b) => a.until - b.until);
  if (first === undefined) return undefined;
  const more = others.length === 0 ? "" : `, and ${formatCount(others.length)} more for longer`;
  return `${formatCountOf(others.length + 1, "watch is", "watches are")} left out while silenced: “${plainLine(first.name)}” until ${atUtc(first.until)}${more}.`;
};

const lineOf = (row: WatchRow, explained: number): FoundLine => {
  const { id, name, filter, fault, isFiring, firingSince, count, evaluatedAt } = row;
  const line = { key: `watch:${id}`, kind: "watch", count } as const;
  if (fault !== null)
    return {
      ...line,
      severity: "warning",
      since: null,
      sentence: `Core cannot count the hosts of the watch “${plainLine(name)}”: ${fault}`,
      evidence: isFiring ? "It was firing before." : null,
      path: `/watches/${id}`,
    };
  return {
    ...line,
    severity: "critical",
    since: firingSince?.toISOString() ?? null,
    sentence: sentenceOf(row),
    evidence: evidenceOf(row, explained),
    // As it was evaluated, so that its relative times are those of the count.
    path: fleetPath(parseQuery(filter, evaluatedAt ?? new Date(0)).filter),
  };
};

const sentenceOf = ({ name, count, moreThan }: WatchRow) => {
  const found = count ?? 0;
  const hosts = `${formatCountOf(found, "host matches", "hosts match")} “${plainLine(name)}”`;
  if (found > moreThan)
    return `${hosts}, which allows ${moreThan === 0 ? "none" : formatCount(moreThan)}.`;
  return `${hosts}, within its limit, but not for long enough to clear.`;
};

const evidenceOf = ({ commonFactor }: WatchRow, explained: number) => {
  const others = formatCountOf(explained, "other watch fires", "other watches fire");
  const sentences = [
    ...(commonFactor === null ? [] : [factorSentence(commonFactor)]),
    ...(explained === 0 ? [] : [`${others} for the same hosts.`]),
  ];
  return sentences.length === 0 ? null : sentences.join(" ");
};
