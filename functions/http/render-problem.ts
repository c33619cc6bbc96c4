import { HTTPException } from "hono/http-exception";
import type { Log } from "#kit/log.ts";
import { problemDocument } from "#kit/problem-document.ts";
import { scimBasePath, scimMediaType, scimUrn } from "#proto/scim/resources.ts";
import { Problem, type ProblemCode, problemCatalog, transportStatus } from "../problems.ts";
import { databaseProblem } from "../store/database/problem.ts";
import type { HttpContext } from "./request.ts";

/** Converts any error to a problem. An unknown error becomes `internal`, and only the log has its cause. */
export const toProblem = (error: unknown): Problem => {
  if (error instanceof Problem) return error;
  if (error instanceof HTTPException && error.status === 413)
    return new Problem("payload_too_large", { cause: error });
  if (error instanceof HTTPException && error.status === 400)
    return new Problem("malformed_json", { cause: error });
  return databaseProblem(error) ?? new Problem("internal", { cause: error });
};

const scimTypes: Partial<Record<ProblemCode, string>> = {
  malformed_json: "invalidSyntax",
  scim_filter_invalid: "invalidFilter",
  scim_path_invalid: "invalidPath",
  scim_syntax_invalid: "invalidSyntax",
  scim_target_missing: "noTarget",
  scim_value_invalid: "invalidValue",
  scim_read_only: "mutability",
  scim_value_taken: "uniqueness",
};

/** Reports whether a path is SCIM's, whose errors have their own format. */
const isScimPath = (path: string) => path.startsWith(`${scimBasePath}/`);

/** Returns the body and media type of a problem as SCIM's error message (RFC 7644, 3.12). */
const scimError = (code: ProblemCode, { status, detail }: { status: number; detail: string }) => {
  const scimType = scimTypes[code];
  return {
    body: JSON.stringify({
      schemas: [scimUrn.error],
      status: String(status),
      ...(scimType === undefined ? {} : { scimType }),
      detail,
    }),
    type: `${scimMediaType}; charset=utf-8`,
  };
};

/** Renders an error as an RFC 9457 response. The only error translator of the HTTP transport. */
export const renderProblem =
  (log: Log) =>
  (error: unknown, c: HttpContext): Response => {
    const problem = toProblem(error);
    const { code, kind, options } = problem;
    const status = transportStatus[kind].http;
    const requestId = c.get("origin")?.requestId ?? "";
    const level = status >= 500 ? "error" : "debug";
    log[level](
      { request_id: requestId, code, status, detail: options.detail, err: options.cause },
      "request rejected",
    );
    const { body, headers } = problemResponse(problem, requestId);
    if (!isScimPath(c.req.path)) return c.newResponse(body, status, headers);
    const scim = scimError(code, { status, detail: options.detail ?? problemCatalog[code].title });
    return c.newResponse(scim.body, status, { ...headers, "Content-Type": scim.type });
  };

/** Returns the status, body and headers of a problem's response. */
export const problemResponse = (problem: Problem, requestId: string) => {
  const { title, action } = problemCatalog[problem.code];
  const status = transportStatus[problem.kind].http;
  const challenge = 'Bearer realm="core"';
  return { status, ...problemDocument(problem, { status, title, action, requestId, challenge }) };
};
