import type { Plant } from "../plant.ts";

export default {
  accounts: () => ({ accept: async () => ({ through: 0n, refused: "internal" }) }),
} satisfies Plant;
