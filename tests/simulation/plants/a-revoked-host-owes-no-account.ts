import type { Plant } from "../plant.ts";

export default {
  hour: ({ queues, ...facts }) => ({
    ...facts,
    queues: queues.filter(({ ending }) => ending !== "revoked"),
  }),
} satisfies Plant;
