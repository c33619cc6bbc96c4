import type { Plant } from "../plant.ts";

export default {
  hour: ({ queues, ...facts }) => ({
    ...facts,
    queues: queues.filter((queue) => queue.accountedThroughMs !== null),
  }),
} satisfies Plant;
