import type { Plant } from "../plant.ts";

export default {
  clock: (clock) => ({
    ...clock,
    sleep: (ms, signal) => clock.sleep(ms > 5_000 ? ms * 100 : ms, signal),
  }),
} satisfies Plant;
