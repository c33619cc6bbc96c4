import type { Plant } from "../plant.ts";

export default {
  sink: (sink) => ({
    ...sink,
    open: async (...call) => {
      const opened = await sink.open(...call);
      return { ...opened, cursor: opened.cursor + 1n };
    },
  }),
} satisfies Plant;
