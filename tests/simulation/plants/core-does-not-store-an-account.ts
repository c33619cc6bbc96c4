import type { Plant } from "../plant.ts";

export default {
  accounts: () => ({
    accept: async () => ({ through: BigInt(Number.MAX_SAFE_INTEGER), refused: "" }),
  }),
} satisfies Plant;
