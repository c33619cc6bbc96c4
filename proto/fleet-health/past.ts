/** The fleet at a past time: the parameter `at`, and the filters without history. */
import * as v from "valibot";
import { figureFilters } from "../management/reported-numbers.ts";
import { parsePastTime } from "../values.ts";
import { type FilterPart, type FleetFilter, filterParts } from "./filter.ts";
import type { FleetThresholdsView } from "./report.ts";
import { type FleetSort, sortsOfNow } from "./vocabulary.ts";

/** The query parameter `at`. */
export const PastTime = v.pipe(
  v.string("must be given once"),
  v.check(
    (text) => parsePastTime(text) !== undefined,
    "must be a time in UTC, such as 2026-11-23T02:41Z",
  ),
  v.transform((text) => new Date(parsePastTime(text) ?? Number.NaN)),
);

/** The parts of a filter that are known only for now. */
const partsOfNow: ReadonlySet<FilterPart> = new Set(
  (
    [
      "auth",
      "droppedMoreThan",
      "queueAbovePercent",
      ...figureFilters.map(({ part }) => part),
      "queueFullWithinSeconds",
      "incompleteWithinSeconds",
      "inventory",
      "budget",
    ] as const
  ).flatMap((part): FilterPart[] => [
    part,
    `not${part.charAt(0).toUpperCase()}${part.slice(1)}` as FilterPart,
  ]),
);

type Thresholds = Pick<FleetThresholdsView, "stale_after_seconds" | "forwarding_seconds">;

/** The ages whose history knows only whether they are above a threshold. */
const agesFrom: Partial<Record<FilterPart, keyof Thresholds>> = {
  heartbeatOlderThanSeconds: "stale_after_seconds",
  notHeartbeatOlderThanSeconds: "stale_after_seconds",
  heartbeatWithinSeconds: "stale_after_seconds",
  notHeartbeatWithinSeconds: "stale_after_seconds",
  envelopeOlderThanSeconds: "forwarding_seconds",
  notEnvelopeOlderThanSeconds: "forwarding_seconds",
  envelopeWithinSeconds: "forwarding_seconds",
  notEnvelopeWithinSeconds: "forwarding_seconds",
};

/** Returns why a filter has no history, with the name of its parameter; undefined if it has. */
export const withoutHistory = (
  { filter, sort }: { filter: FleetFilter; sort?: FleetSort | undefined },
  { at, thresholds }: { at: number; thresholds: Thresholds },
): string | undefined => {
  if (sort !== undefined && sortsOfNow.has(sort)) return `sort: ${sort} has no history`;
  for (const part of Object.keys(filter) as FilterPart[]) {
    const { parameter } = filterParts[part];
    if (partsOfNow.has(part)) return `${parameter}: this has no history`;
    const threshold = agesFrom[part];
    const seconds = threshold && thresholds[threshold];
    if (seconds !== undefined && Number(filter[part]) < seconds)
      return `${parameter}: the past knows ages of ${seconds} seconds and more`;
    if (part !== "silentSince" && part !== "notSilentSince") continue;
    if (Date.parse(String(filter[part])) > at - thresholds.forwarding_seconds * 1000)
      return `${parameter}: the past knows silences of ${thresholds.forwarding_seconds} seconds and more`;
  }
  return undefined;
};
