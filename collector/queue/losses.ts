import * as v from "valibot";
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

/** Returns the losses that a queue with these checkpoints has. */
const lossesOf = (checkpoints: Iterable<Checkpoint>): Losses => {
  for (const { source, key, value } of checkpoints)
    if (source === own.source && key === own.key && value !== null) return parseLosses(value);
  return parseLosses(undefined);
};

/** Returns the losses that are saved under the key `losses` of the source `queue`. */
export const parseLosses = (value: string | undefined): Losses => {
  const none: Losses = { records: 0, lastAgeMs: null };
  if (value === undefined) return none;
  try {
    return v.parse(Saved, JSON.parse(value));
  } catch {
    return none;
  }
};

/** Returns the checkpoint that adds `records` more at the queue's time `ageMs`. */
export const addLosses = (
  checkpoints: Iterable<Checkpoint>,
  records: number,
  ageMs: number,
): Checkpoint => {
  const losses: Losses = { records: lossesOf(checkpoints).records + records, lastAgeMs: ageMs };
  return { ...own, value: JSON.stringify(losses) };
};

/** How long a queue is at risk after damage: long enough for somebody to see it. */
const riskMs = 86_400_000;

/** Whether damage was found within the last day of the queue's time `nowAgeMs`. */
export const isLosing = ({ lastAgeMs }: Losses, nowAgeMs: number): boolean =>
  lastAgeMs !== null && nowAgeMs - lastAgeMs < riskMs;
