import * as v from "valibot";
import { dayMs } from "#kit/clock.ts";
import type { Checkpoint } from "./record.ts";

/**
 * The records that the queue lost because its files were damaged. A checkpoint of the queue's own holds the count: the format of the database
 * has no other place for it, and checkpoints survive a quarantine.
 */
export interface Losses {
  /** Records that damage took back without a trace in the database (watermark.ts), ever. */
  records: number;
  /** The queue's time at the last damage; null before the first. */
  lastAgeMs: number | null;
}

const own = { source: "queue", key: "losses" } as const;

const Saved = v.object({ records: v.number(), lastAgeMs: v.nullable(v.number()) });
const noLosses: Losses = { records: 0, lastAgeMs: null };
const SavedLosses = v.fallback(v.pipe(v.string(), v.parseJson(), Saved), noLosses);

/** Returns the losses that are saved under the key `losses` of the source `queue`. */
export const parseLosses = (value: string | null | undefined): Losses =>
  v.parse(SavedLosses, value);

/** Returns the checkpoint that adds `records` more at the queue's time `ageMs`. */
export const addLosses = (
  checkpoints: readonly Checkpoint[],
  records: number,
  ageMs: number,
): Checkpoint => {
  const saved = checkpoints.find(({ source, key }) => source === own.source && key === own.key);
  const losses: Losses = { records: parseLosses(saved?.value).records + records, lastAgeMs: ageMs };
  return { ...own, value: JSON.stringify(losses) };
};

/** How long a queue is at risk after damage: long enough for somebody to see it. */
const riskMs = dayMs;

/** Reports whether damage was found within the last day of the queue's time `nowAgeMs`. */
export const isLosing = ({ lastAgeMs }: Losses, nowAgeMs: number): boolean =>
  lastAgeMs !== null && nowAgeMs - lastAgeMs < riskMs;
