import type { Plant } from "../plant.ts";

export default {
  register: (register) => ({
    ...register,
    lock: async (...call) =>
      (await register.lock(...call)).map((row) => ({ ...row, sessionId: null })),
  }),
} satisfies Plant;
