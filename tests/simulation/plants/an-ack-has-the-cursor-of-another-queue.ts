import type { Plant } from "../plant.ts";

export default {
  sink: (sink) => {
    let last: bigint | undefined;
    return {
      ...sink,
      commit: async (frame, bytes) => {
        const committed = await sink.commit(frame, bytes);
        const cursor = last ?? committed.cursor;
        last = committed.cursor;
        return { ...committed, cursor };
      },
    };
  },
} satisfies Plant;
