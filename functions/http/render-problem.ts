import { HTTPException } from "hono/http-exception";
import type { Log } from "../core.ts";
import { Problem, problemCatalog, transportStatus } from "../problems.ts";
import { databaseProblem } from "../store/database-problem.ts";
import type { HttpContext } from "./request.ts";

/** Any error as a Problem. What is not one becomes `internal`, whose cause only the log sees. */
export const toProblem = (error: unknown): Problem => {
  if (error instanceof Problem) return error;
  if (error instanceof HTTPException && error.status === 413) return new Problem("payload_too_large", { cause: error });
  if (error instanceof HTTPException && error.status === 400) return new Problem("malformed_json", { cause: error });
  return databaseProblem(error) ?? new Problem("internal", { cause: error });
};

/** The RFC 9457 answer to an error: the one translator of the HTTP transport. */
export const renderProblem =
  (log: Log) =>
  (error: unknown, c: HttpContext): Response => {
    const problem = toProblem(error);
    const { code, kind, options } = problem;
    const { title, action } = problemCatalog[code];
    const status = transportStatus[kind].http;
    const requestId = c.get("origin")?.requestId ?? "";
    const level = status >= 500 ? "error" : "debug";
    log[level]({ request_id: requestId, code, status, detail: options.detail, err: options.cause }, "request refused");
    const headers = new Headers({ "Content-Type": "application/problem+json", "Cache-Control": "no-store" });
    if (status === 401) headers.set("WWW-Authenticate", 'Bearer realm="core"');
    const retryAfterSeconds = options.retryAfterSeconds ?? (status === 503 || status === 429 ? 5 : undefined);
    if (retryAfterSeconds !== undefined) headers.set("Retry-After", String(Math.ceil(retryAfterSeconds)));
    const body = {
      type: `urn:svc:problem:${code}`,
      title,
      status,
      detail: options.detail ?? title,
      code,
      action,
      request_id: requestId,
      ...(options.errors ? { errors: options.errors } : {}),
      ...options.extensions,
    };
    return c.newResponse(JSON.stringify(body), status, Object.fromEntries(headers));
  };
