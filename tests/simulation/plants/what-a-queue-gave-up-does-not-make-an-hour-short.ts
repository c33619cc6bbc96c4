import type { Plant } from "../plant.ts";

export default {
  hour: ({ accounts, ...facts }) => ({ ...facts, accounts: { ...accounts, missing: 0 } }),
} satisfies Plant;
