import { type Tracer, untraced } from "#kit/tracing/tracer.ts";
import type { Queue } from "./queue.ts";

/** Makes each append to the queue, with its wait for room and its fsync, a span of the operation that is being recorded. */
export const traceAppend = (append: Queue["append"], tracer: Tracer): Queue["append"] => {
  if (tracer === untraced) return append;
  return async (...call) => {
    const span = tracer.start({ name: "append", kind: "internal" });
    try {
      const outcome = await append(...call);
      span?.set({ "svc.outcome": outcome });
      return outcome;
    } catch (error) {
      span?.fail(error);
      throw error;
    } finally {
      span?.end();
    }
  };
};
