import { anyQueue } from "#proto/completeness/hour-state.ts";
import type { Plant } from "../plant.ts";

export default {
  hour: ({ queues, ...facts }) => {
    const [first] = queues.toSorted((one, other) => one.fromMs - other.fromMs);
    const through = Math.max(...queues.map((queue) => queue.accountedThroughMs ?? 0));
    return { ...facts, queues: first ? [anyQueue(first.fromMs, through)] : [] };
  },
} satisfies Plant;
