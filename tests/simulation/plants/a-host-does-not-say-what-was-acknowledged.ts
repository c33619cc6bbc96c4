import type { Plant } from "../plant.ts";
import { withMembers } from "../with-members.ts";

export default {
  queue: (queue) =>
    withMembers(queue, {
      beginSession: (hostId) => ({ ...queue.beginSession(hostId), ackedThrough: 0 }),
    }),
} satisfies Plant;
