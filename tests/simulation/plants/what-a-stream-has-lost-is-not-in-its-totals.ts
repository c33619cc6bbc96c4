import { counting, type Plant } from "../plant.ts";

export default {
  sink: counting(({ totals, ...counted }) => ({
    ...counted,
    totals: totals && { ...totals, lost: 0n },
  })),
} satisfies Plant;
