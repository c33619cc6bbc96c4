import type { Plant } from "../plant.ts";
import { withMembers } from "../with-members.ts";

export default {
  queue: (queue) => withMembers(queue, { ack: async () => undefined }),
} satisfies Plant;
