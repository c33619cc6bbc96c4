import { Problem as KitProblem, type ProblemAction, type ProblemOptions } from "../../kit/problem.ts";

interface Entry {
  status: 401 | 403 | 404 | 405 | 413 | 414 | 415 | 429 | 500 | 503;
  action: ProblemAction;
  title: string;
}

const entry = (status: Entry["status"], action: ProblemAction, title: string): Entry => ({ status, action, title });

/** Every code that web answers with itself; core's pass through as they are. Stable: a code is added, never renamed. */
export const problemCatalog = {
  unauthenticated: entry(401, "fix_request", "There is no session: sign in"),
  cross_origin_refused: entry(403, "stop", "The request does not come from a page of this origin"),
  not_found: entry(404, "fix_request", "No such resource"),
  method_not_allowed: entry(405, "fix_request", "The path does not take this method"),
  payload_too_large: entry(413, "fix_request", "The body or payload is over the limit"),
  uri_too_long: entry(414, "fix_request", "The address is over the limit"),
  unsupported_media_type: entry(415, "fix_request", "The content type is not supported"),
  rate_limited: entry(429, "retry", "Too many requests of this person"),
  internal: entry(500, "retry", "Web failed"),
  core_unavailable: entry(503, "retry", "Core cannot be reached"),
} as const satisfies Record<string, Entry>;

/** A code of the catalog. */
export type ProblemCode = keyof typeof problemCatalog;

/** A refusal by web: `throw new Problem("core_unavailable", { cause })`. */
export class Problem extends KitProblem<ProblemCode> {
  constructor(code: ProblemCode, options: ProblemOptions = {}) {
    super(code, { detail: problemCatalog[code].title, ...options });
  }
}
