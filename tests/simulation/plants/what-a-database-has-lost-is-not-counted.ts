import type { Plant } from "../plant.ts";

export default {
  register: (register) => ({
    ...register,
    update: (tx, queues, now) =>
      register.update(
        tx,
        queues.map((queue) => ({ ...queue, lost: 0n })),
        now,
      ),
  }),
} satisfies Plant;
