import type { Plant } from "../plant.ts";

export default {
  hour: ({ accounts, ...facts }) => ({
    ...facts,
    accounts: { ...accounts, fileGaps: 0, fileGapBytes: 0 },
  }),
} satisfies Plant;
