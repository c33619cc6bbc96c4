import type { Plant } from "../plant.ts";

export default {
  hour: ({ queues, ...facts }) => ({
    ...facts,
    queues: queues.map((queue) => ({
      ...queue,
      endMs: queue.endMs ?? queue.accountedThroughMs ?? queue.fromMs,
      ending: "ended",
    })),
  }),
} satisfies Plant;
