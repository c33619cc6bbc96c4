import type { Plant } from "../plant.ts";
import { withMembers } from "../with-members.ts";

export default {
  queue: (queue) =>
    withMembers(queue, { append: (records) => queue.append(records).catch(() => "stored") }),
} satisfies Plant;
