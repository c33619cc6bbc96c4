import { queueKey } from "#functions/store/ingest/decide-batch.ts";
import { numberedFrom, type Plant } from "../plant.ts";

export default {
  sink: (sink) => {
    const cursors = new Map<string, bigint>();
    return {
      ...sink,
      commit: async (frame, bytes) => {
        const key = queueKey(frame);
        const cursor = cursors.get(key) ?? 0n;
        const overlaps = frame.previousSequence < cursor && cursor < frame.lastSequence;
        const committed = await sink.commit(overlaps ? numberedFrom(frame, cursor) : frame, bytes);
        cursors.set(key, committed.cursor);
        return committed;
      },
    };
  },
} satisfies Plant;
