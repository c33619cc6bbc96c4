import type { Plant } from "../plant.ts";
import { withMembers } from "../with-members.ts";

export default {
  queue: (queue) =>
    withMembers(queue, {
      beginSession: (hostId) => {
        const session = queue.beginSession(hostId);
        return { ...session, ackedThrough: session.sentThrough };
      },
    }),
} satisfies Plant;
