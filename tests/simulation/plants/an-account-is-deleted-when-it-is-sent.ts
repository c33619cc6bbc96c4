import type { Plant } from "../plant.ts";
import { withMembers } from "../with-members.ts";

export default {
  queue: (queue) => {
    const { accounts } = queue;
    const next = () => {
      const account = accounts.next();
      if (account) queueMicrotask(accounts.acknowledged);
      return account;
    };
    return withMembers(queue, { accounts: { ...accounts, next } });
  },
} satisfies Plant;
