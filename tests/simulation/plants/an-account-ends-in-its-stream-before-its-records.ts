import { counting, type Plant } from "../plant.ts";

export default {
  sink: counting(({ end, ...counted }) => ({
    ...counted,
    end: end && { ...end, sequence: end.sequence - 1n },
  })),
} satisfies Plant;
