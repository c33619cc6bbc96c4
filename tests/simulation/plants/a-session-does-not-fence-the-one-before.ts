import type { Plant } from "../plant.ts";

export default {
  register: (register) => ({
    ...register,
    update: (tx, queues, now) =>
      register.update(
        tx,
        queues.map((queue) => ({ ...queue, sessionId: undefined })),
        now,
      ),
  }),
} satisfies Plant;
