import type { ToolResult } from "#proto/chat/tools.ts";

/** Queries of one core at a time: core's other work has the rest of the database. */
const runningMax = 2;
const waitingMax = 64;
const waitMsMax = 15_000;

/** A query, which may keep its slot beyond its result: until its backend has ended. */
type Slotted = (
  signal: AbortSignal,
  keepUntil: (ended: Promise<void>) => void,
) => Promise<ToolResult>;

/** Runs few queries at a time; the others wait in order. */
export interface QueryQueue {
  /** Runs `query` when its turn comes. Resolves with an error of code `too_many_queries` when that takes too long. */
  run(signal: AbortSignal, query: Slotted): Promise<ToolResult>;
  /** Aborts what runs and waits, and resolves when nothing runs. */
  close(): Promise<void>;
}

/** Creates the queue of one core. */
export const createQueryQueue = (): QueryQueue => {
  const closing = new AbortController();
  const waiting = new Set<() => void>();
  const running = new Set<Promise<unknown>>();
  let active = 0;
  const leave = (): void => {
    active -= 1;
    const [next] = waiting;
    if (next === undefined) return;
    waiting.delete(next);
    next();
  };
  const enter = async (signal: AbortSignal): Promise<boolean> => {
    if (active < runningMax) {
      active += 1;
      return true;
    }
    if (waiting.size >= waitingMax) return false;
    const { promise, resolve, reject } = Promise.withResolvers<boolean>();
    const admit = (): void => {
      active += 1;
      resolve(true);
    };
    waiting.add(admit);
    const timer = setTimeout(() => {
      waiting.delete(admit);
      resolve(false);
    }, waitMsMax);
    const abort = (): void => {
      waiting.delete(admit);
      reject(signal.reason);
    };
    signal.addEventListener("abort", abort, { once: true });
    try {
      return await promise;
    } finally {
      clearTimeout(timer);
      signal.removeEventListener("abort", abort);
    }
  };
  return {
    async run(callerSignal, query) {
      const signal = AbortSignal.any([callerSignal, closing.signal]);
      signal.throwIfAborted();
      if (!(await enter(signal)))
        return {
          kind: "error",
          code: "too_many_queries",
          message: "other queries are running: try again",
        };
      let ended = Promise.resolve();
      const result = query(signal, (promise) => {
        ended = promise;
      }).finally(() => void ended.finally(leave));
      running.add(result);
      try {
        return await result;
      } finally {
        running.delete(result);
      }
    },
    async close() {
      closing.abort(new Error("core is stopping"));
      await Promise.allSettled(running);
    },
  };
};
