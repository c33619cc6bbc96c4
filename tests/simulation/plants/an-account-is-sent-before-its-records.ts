import type { Plant } from "../plant.ts";
import { withMembers } from "../with-members.ts";

export default {
  queue: (queue) =>
    withMembers(queue, {
      // Only what asks whether records are left reads no bytes.
      read: (sequence, limits) => (limits.maxBytes === 0 ? [] : queue.read(sequence, limits)),
    }),
} satisfies Plant;
