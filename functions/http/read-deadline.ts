import { type Clock, TimedOut, withTimeout } from "#kit/clock.ts";
import { Problem } from "../problems.ts";
import type { Route } from "./route-definition.ts";

/** Below the 5 s that web waits for headers, so that web learns what is unavailable. */
const readDeadlineMs = 4_000;

const operatorGuards: readonly string[] = ["scope", "web"];

/**
 * Returns a route whose response begins within 4 s of the request, or is 503 `database_unavailable`: an operator's read waits only for the
 * database, but several times in a row. Other routes are returned unchanged. A stream may take longer once it has begun.
 */
export const withReadDeadline =
  (clock: Pick<Clock, "sleep">) =>
  (route: Route): Route => {
    if (route.method !== "GET" || !operatorGuards.includes(route.guard.kind)) return route;
    return {
      ...route,
      handle: async (c) => {
        const response = route.handle(c);
        try {
          return await withTimeout(readDeadlineMs, clock, response);
        } catch (error) {
          if (!(error instanceof TimedOut)) throw error;
          // Nobody reads a stream that begins after the deadline.
          response.then(({ body }) => body?.cancel()).catch(() => undefined);
          const detail = `The database did not answer within ${readDeadlineMs / 1000} s`;
          throw new Problem("database_unavailable", { detail, cause: error, retryAfterSeconds: 1 });
        }
      },
    };
  };
