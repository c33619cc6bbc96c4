import type { CountedQueue } from "#functions/domain/telemetry/stream-range.ts";
import { counting, type Plant } from "../plant.ts";

export default {
  sink: (sink) => {
    const known = new Map<string, CountedQueue>();
    return counting((counted, row) => {
      const first = known.get(row) ?? counted;
      known.set(row, first);
      return first;
    })(sink);
  },
} satisfies Plant;
