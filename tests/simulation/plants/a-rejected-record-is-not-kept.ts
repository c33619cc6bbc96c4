import type { Plant } from "../plant.ts";
import { withMembers } from "../with-members.ts";

export default {
  queue: (queue) => withMembers(queue, { moveToDeadLetters: () => true }),
} satisfies Plant;
