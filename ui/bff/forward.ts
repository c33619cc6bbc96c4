import type { CoreCall, CoreClient } from "./core-client.ts";
import type { WebContext } from "./request.ts";

/** The headers of core's response that every client receives. */
const returnedHeaders = [
  "content-type",
  "content-disposition",
  "etag",
  "retry-after",
  "x-accel-buffering",
  "x-generated-at",
];

/** Calls core for a client, with its `Accept` and `If-None-Match`, until it disconnects. */
export const forwardRequest = (
  c: WebContext,
  core: CoreClient,
  call: Omit<CoreCall, "requestId" | "accept" | "ifNoneMatch" | "signal">,
): Promise<Response> =>
  core.call({
    ...call,
    requestId: c.get("requestId"),
    accept: c.req.header("accept") ?? "*/*",
    ifNoneMatch: c.req.header("if-none-match"),
    signal: c.req.raw.signal,
  });

/** Returns core's response with `returnedHeaders` and `others` alone, and streams its body. */
export const forwardResponse = (
  c: WebContext,
  response: Response,
  others: readonly string[],
): Response => {
  const headers = [...returnedHeaders, ...others].flatMap((name) => {
    const value = response.headers.get(name);
    return value === null ? [] : [[name, value]];
  });
  return c.newResponse(response.body, response.status as 200, Object.fromEntries(headers));
};
