import type { Plant } from "../plant.ts";
import { withMembers } from "../with-members.ts";

export default {
  queue: (queue) =>
    withMembers(queue, { accounts: { ...queue.accounts, missing: () => undefined } }),
} satisfies Plant;
