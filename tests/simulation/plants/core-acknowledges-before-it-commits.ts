import { committedWhole, type Plant } from "../plant.ts";

export default {
  sink: (sink) => ({
    ...sink,
    commit: async (frame, bytes) => {
      sink.commit(frame, bytes).catch(() => undefined);
      return committedWhole(frame);
    },
  }),
} satisfies Plant;
