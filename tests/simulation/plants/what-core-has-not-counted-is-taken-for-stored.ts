import type { Plant } from "../plant.ts";

export default {
  hour: ({ accounts, ...facts }) => ({ ...facts, accounts: { ...accounts, isChecked: true } }),
} satisfies Plant;
