import { hourMs } from "#kit/clock.ts";
import type { Plant } from "../plant.ts";

export default {
  hour: ({ accounts, ...facts }) => ({
    ...facts,
    accounts: {
      ...accounts,
      covered: accounts.covered.map((time) => ({ ...time, toMs: facts.hourMs + hourMs })),
    },
  }),
} satisfies Plant;
