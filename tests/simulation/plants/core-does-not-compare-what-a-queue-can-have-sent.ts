import type { Plant } from "../plant.ts";

export default {
  sink: (sink) => ({
    ...sink,
    open: (claims, isGone) => sink.open({ ...claims, sentThrough: undefined }, isGone),
  }),
} satisfies Plant;
