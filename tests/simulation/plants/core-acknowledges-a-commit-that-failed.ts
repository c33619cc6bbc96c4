import { committedWhole, type Plant } from "../plant.ts";

export default {
  sink: (sink) => ({
    ...sink,
    commit: (frame, bytes) => sink.commit(frame, bytes).catch(() => committedWhole(frame)),
  }),
} satisfies Plant;
