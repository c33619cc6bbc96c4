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
    links: PageLinks;
  };
}

/** URL paths of the parts of a page that web renders itself; without them the page is plain. */
export interface PageLinks {
  iconPath?: string | undefined;
  stylePath?: string | undefined;
  /** The script that applies the chosen theme. */
  themePath?: string | undefined;
}

/** Web's request context. */
export type WebContext = Context<WebEnv>;

/** Handles one request. */
export type Handler = (c: WebContext) => Response | Promise<Response>;

/** Adds these `Set-Cookie` headers to the response. */
export const setCookies = (c: WebContext, cookies: readonly string[]): void => {
  for (const cookie of cookies) c.header("Set-Cookie", cookie, { append: true });
};
