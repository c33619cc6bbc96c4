import type { Plant } from "../plant.ts";

export default {
  hour: ({ queues, ...facts }) => ({
    ...facts,
    queues: queues.toSorted((one, other) => other.fromMs - one.fromMs).slice(0, 1),
  }),
} satisfies Plant;
