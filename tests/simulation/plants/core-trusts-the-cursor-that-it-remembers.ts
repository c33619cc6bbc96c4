import { queueKey } from "#functions/store/ingest/decide-batch.ts";
import type { Plant } from "../plant.ts";

export default {
  sink: (sink) => {
    const cursors = new Map<string, bigint>();
    return {
      ...sink,
      open: async (claims, isGone) => {
        const opened = await sink.open(claims, isGone);
        const key = queueKey(claims);
        const cursor = cursors.get(key) ?? opened.cursor;
        cursors.set(key, cursor);
        return { ...opened, cursor };
      },
      commit: async (frame, bytes) => {
        const committed = await sink.commit(frame, bytes);
        cursors.set(queueKey(frame), committed.cursor);
        return committed;
      },
    };
  },
} satisfies Plant;
