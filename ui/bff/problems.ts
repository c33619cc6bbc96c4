import type { Log } from "#kit/log.ts";
import { CodedProblem, type ProblemAction, type ProblemOptions } from "#kit/problem.ts";
import { problemDocument } from "#kit/problem-document.ts";
import type { WebContext } from "./request.ts";

interface Entry {
  status: 400 | 401 | 403 | 404 | 405 | 408 | 413 | 414 | 415 | 429 | 500 | 503;
  action: ProblemAction;
  title: string;
}

const entry = (status: Entry["status"], action: ProblemAction, title: string): Entry => ({
  status,
  action,
  title,
});

/** Every code of web's own responses; web forwards core's unchanged. Stable: codes are added, never renamed. */
export const webProblemCatalog = {
  malformed_form: entry(400, "fix_request", "The body is not a form"),
  logout_token_invalid: entry(400, "fix_request", "The logout token is not valid"),
  logout_token_replayed: entry(
    400,
    "stop",
    "Another logout token with this jti was accepted before",
  ),
  unauthenticated: entry(401, "fix_request", "There is no session: sign in"),
  fresh_sign_in_required: entry(
    403,
    "fix_request",
    "The sign-in is too long ago for this: sign in again",
  ),
  cross_origin_refused: entry(403, "stop", "The request does not come from a page of this origin"),
  not_found: entry(404, "fix_request", "No such resource"),
  method_not_allowed: entry(405, "fix_request", "The path does not accept this method"),
  body_timeout: entry(408, "retry", "The body was not complete in time"),
  payload_too_large: entry(413, "fix_request", "The body or payload is over the limit"),
  uri_too_long: entry(414, "fix_request", "The address is over the limit"),
  unsupported_media_type: entry(415, "fix_request", "The content type is not supported"),
  rate_limited: entry(429, "retry", "This person or address sent too many requests"),
  internal: entry(500, "retry", "Web failed"),
  overloaded: entry(503, "retry", "Too many bodies are incomplete"),
  clock_skew: entry(503, "fix_clock", "The clocks of web and core differ"),
  identity_provider_unavailable: entry(503, "retry", "The identity provider's keys cannot be read"),
  core_unavailable: entry(503, "retry", "Core cannot be reached"),
  database_unavailable: entry(503, "retry", "The database cannot be reached"),
} as const satisfies Record<string, Entry>;

/** A code of the catalog. */
export type WebProblemCode = keyof typeof webProblemCatalog;

/** An error that web answers with: `throw new WebProblem("core_unavailable", { cause })`. */
export class WebProblem extends CodedProblem<WebProblemCode> {
  constructor(code: WebProblemCode, options: ProblemOptions = {}) {
    super(code, { detail: webProblemCatalog[code].title, ...options });
  }
}

/** Renders an error as an RFC 9457 response in core's form. The only error translator of web. */
export const createProblemRenderer =
  (log: Log) =>
  (error: unknown, c: WebContext): Response => {
    const problem =
      error instanceof WebProblem ? error : new WebProblem("internal", { cause: error });
    const { code, options } = problem;
    const { status, title, action } = webProblemCatalog[code];
    const requestId = c.get("requestId");
    // A browser that disconnects during a response is no fault of web.
    const level = status >= 500 && !c.req.raw.signal.aborted ? "error" : "debug";
    log[level](
      { request_id: requestId, code, status, detail: options.detail, err: options.cause },
      "request rejected",
    );
    const challenge = 'Session realm="web"';
    const { body, headers } = problemDocument(problem, {
      status,
      title,
      action,
      requestId,
      challenge,
    });
    return c.newResponse(body, status, headers);
  };
