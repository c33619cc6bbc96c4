import type { Plant } from "../plant.ts";
import { withMembers } from "../with-members.ts";

export default {
  queue: (queue) =>
    withMembers(queue, { ack: (sequence, options) => queue.ack(sequence + 1, options) }),
} satisfies Plant;
