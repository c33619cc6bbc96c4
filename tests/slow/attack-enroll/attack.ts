import type { LabCore } from "#scripts/lab/lab-core.ts";

/** The effect of an attack, and whether the guarantees held. */
export interface AttackReport {
  /** Responses by status and problem code: `201`, `403 enrollment_limit_reached`. */
  answers: Record<string, number>;
  /** Other counts. */
  counts: Record<string, number>;
  /** Every sentence must be true. */
  held: Record<string, boolean>;
}

/** Runs one bounded attack and reports its effect. */
export type Attack = (core: LabCore) => Promise<AttackReport>;

/** Runs `task` over all items, `atOnce` at a time; returns the results in the items' order. */
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

/** Returns the integers from 0 to `count` - 1. */
export const upTo = (count: number): number[] => Array.from({ length: count }, (_, at) => at);
