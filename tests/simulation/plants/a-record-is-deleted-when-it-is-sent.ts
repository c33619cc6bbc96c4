import type { Plant } from "../plant.ts";
import { withMembers } from "../with-members.ts";

export default {
  queue: (queue) =>
    withMembers(queue, {
      markSent: (sequence) => {
        queue.markSent(sequence);
        queue.ack(sequence).catch(() => undefined);
      },
    }),
} satisfies Plant;
