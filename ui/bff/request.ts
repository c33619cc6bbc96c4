import type { Context } from "hono";
import { formBytesMax, formMediaType, parseForm } from "../../kit/form.ts";
import type { RequestBodies } from "../../kit/request-bodies.ts";
import { WebProblem } from "./problems.ts";

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

/**
 * Reads a request's body within web's limits of incomplete bodies. Throws `payload_too_large`, also of a Content-Length that is not read,
 * `body_timeout` and `overloaded`. Read it after what the headers can refuse.
 */
export const readRequestBody = async (
  c: WebContext,
  bytesMax: number,
): Promise<Uint8Array<ArrayBuffer>> => {
  const body = await c
    .get("bodies")
    .read(c.req.raw, { remoteAddress: c.get("remoteAddress"), bytesMax });
  if (typeof body === "string") throw new WebProblem(body);
  return body;
};

/** Returns the parameters of a request's query. `c.req.query` takes 50 ms for 32 KB of invalid percent-encoding. */
export const queryOf = (c: Context): URLSearchParams => new URL(c.req.url).searchParams;

/** Returns the media type of a request's body without parameters, in lower case; undefined without one. */
export const bodyMediaTypeOf = (c: WebContext): string | undefined =>
  c.req.header("content-type")?.split(";")[0]?.trim().toLowerCase();

/** Reads a form of at most 16 KiB. Throws `malformed_form`, `unsupported_media_type`, and as `readRequestBody` does. */
export const readForm = async (c: WebContext): Promise<Readonly<Record<string, string>>> => {
  if (bodyMediaTypeOf(c) !== formMediaType)
    throw new WebProblem("unsupported_media_type", { detail: `Send the form as ${formMediaType}` });
  const form = parseForm(new TextDecoder().decode(await readRequestBody(c, formBytesMax)));
  if (form === undefined)
    throw new WebProblem("malformed_form", {
      detail: "Name each field once, with valid percent-encoding",
    });
  return form;
};
