import type { Log } from "../../kit/log.ts";
import { problemDocument } from "../../kit/problem-document.ts";
import { Problem, problemCatalog } from "./problems.ts";
import type { WebContext } from "./request.ts";

/** The RFC 9457 answer to an error, of the same form as core's: the one translator of web. */
export const renderProblem =
  (log: Log) =>
  (error: unknown, c: WebContext): Response => {
    const problem = error instanceof Problem ? error : new Problem("internal", { cause: error });
    const { code, options } = problem;
    const { status, title, action } = problemCatalog[code];
    const requestId = c.get("requestId");
    // Who went away in the middle of an answer is no fault of ours.
    const level = status >= 500 && !c.req.raw.signal.aborted ? "error" : "debug";
    log[level]({ request_id: requestId, code, status, detail: options.detail, err: options.cause }, "request refused");
    const { body, headers } = problemDocument(problem, {
      status,
      title,
      action,
      requestId,
      challenge: 'Session realm="web"',
    });
    return c.newResponse(body, status, headers);
  };
