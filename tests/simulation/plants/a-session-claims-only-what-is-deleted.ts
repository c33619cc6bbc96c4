import type { Plant } from "../plant.ts";
import { withMembers } from "../with-members.ts";

export default {
  queue: (queue) => {
    let deleted: number | undefined;
    return withMembers(queue, {
      ack: async (sequence, options) => {
        await queue.ack(sequence, options);
        deleted = Math.max(deleted ?? 0, sequence);
      },
      beginSession: (hostId) => {
        const session = queue.beginSession(hostId);
        const ackedThrough = Math.min(session.ackedThrough, deleted ?? session.ackedThrough);
        deleted = session.ackedThrough;
        return { ...session, ackedThrough };
      },
    });
  },
} satisfies Plant;
