import type { Context } from "hono";
import type { RequestBodies } from "#kit/request-bodies.ts";

/** Bindings and variables of web's Hono app. */
export interface WebEnv {
  // biome-ignore lint/suspicious/noExplicitAny: the bindings differ between the listener and tests, and only `remoteAddressOf` reads them
  Bindings: any;
  Variables: {
    requestId: string;
    /** The client's address: the direct peer's, or what a trusted proxy reports. */
    remoteAddress: string;
    bodies: RequestBodies;
  };
}

/** Web's request context. */
export type WebContext = Context<WebEnv>;

/** Handles one request. */
export type Handler = (c: WebContext) => Response | Promise<Response>;

/** Returns core's response with only these headers, and streams its body. */
export const forwardResponse = (
  c: WebContext,
  response: Response,
  names: readonly string[],
): Response => {
  const headers = names.flatMap((name) => {
    const value = response.headers.get(name);
    return value === null ? [] : [[name, value]];
  });
  return c.newResponse(response.body, response.status as 200, Object.fromEntries(headers));
};
