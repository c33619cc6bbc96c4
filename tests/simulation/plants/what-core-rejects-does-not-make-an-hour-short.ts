import type { Plant } from "../plant.ts";

export default {
  hour: ({ accounts, ...facts }) => ({ ...facts, accounts: { ...accounts, rejected: 0 } }),
} satisfies Plant;
