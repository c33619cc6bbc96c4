import { Problem } from "./problems.ts";
import type { WebContext } from "./request.ts";

/**
 * Refuses what a page of another origin made the browser send (A5): anything but GET and HEAD needs this very `Origin`, which
 * browsers always add to a POST, and a POST says its media type; a GET that the browser marks as another site's is refused too, as
 * its answer is only for our pages. Throws 403 `cross_origin_refused`.
 */
export const checkOrigin = (c: WebContext, origin: string): void => {
  const { method } = c.req;
  const refuse = (detail: string): never => {
    throw new Problem("cross_origin_refused", { detail });
  };
  if (method === "GET" || method === "HEAD") {
    const site = c.req.header("sec-fetch-site") ?? "none";
    if (site !== "none" && site !== "same-origin") refuse("The request comes from another site");
    return;
  }
  if (c.req.header("origin") !== origin) refuse("The Origin header is not this origin");
  if (method === "POST" && !c.req.header("content-type")) refuse("A POST needs a Content-Type");
};
