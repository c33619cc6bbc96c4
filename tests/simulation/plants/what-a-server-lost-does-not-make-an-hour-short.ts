import type { Plant } from "../plant.ts";

export default {
  hour: ({ accounts, ...facts }) => ({ ...facts, accounts: { ...accounts, lost: 0 } }),
} satisfies Plant;
