import type { Plant } from "../plant.ts";

export default {
  clock: (clock) => ({ ...clock, monotonic: clock.now }),
} satisfies Plant;
