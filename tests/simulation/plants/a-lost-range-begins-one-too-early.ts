import type { Plant } from "../plant.ts";

export default {
  register: (register) => ({
    ...register,
    record: (tx, queue, events) =>
      register.record(
        tx,
        queue,
        events.map((event) => {
          if (event.action !== "ingest.gap") return event;
          const details = { ...event.details, from: String(Number(event.details.from) - 1) };
          return { ...event, details };
        }),
      ),
  }),
} satisfies Plant;
