import type { LabCore } from "../../../scripts/lab/lab-core.ts";

/** What an attack did and what held. */
export interface AttackReport {
  /** Answers by status and problem code: `201`, `403 enrollment_limit_reached`. */
  answers: Record<string, number>;
  /** What else was counted. */
  counts: Record<string, number>;
  /** Every sentence must be true. */
  held: Record<string, boolean>;
}

/** Does harm, bounded, and says what came of it. */
export type Attack = (core: LabCore) => Promise<AttackReport>;

/** Runs `task` over all items, `atOnce` at a time; gives the results in the items' order. */
export const inParallel = async <Item, Result>(
  items: readonly Item[],
  atOnce: number,
  task: (item: Item) => Promise<Result>,
): Promise<Result[]> => {
  const results: Result[] = [];
  const left = items.entries();
  const work = async () => {
    for (const [at, item] of left) results[at] = await task(item);
  };
  await Promise.all(Array.from({ length: atOnce }, work));
  return results;
};

/** The whole numbers from 0 to `count` - 1. */
export const upTo = (count: number): number[] => Array.from({ length: count }, (_, at) => at);
