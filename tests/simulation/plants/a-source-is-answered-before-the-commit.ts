import type { Plant } from "../plant.ts";
import { withMembers } from "../with-members.ts";

export default {
  queue: (queue) =>
    withMembers(queue, {
      append: async (records, options) => {
        queue.append(records, options).catch(() => undefined);
        return "stored";
      },
    }),
} satisfies Plant;
