import { Problem, type ProblemAction } from "./problem.ts";
import { problemDocument } from "./problem-document.ts";

/** Refusals of what a listener cannot read as a request, so that no app ever sees it: the same for core and web. */
export const unreadableRequests = {
  malformed_request: { status: 400, action: "fix_request", title: "This is not a well-formed HTTP request" },
  request_timeout: { status: 408, action: "retry", title: "The request did not come whole in time" },
  headers_too_large: { status: 431, action: "fix_request", title: "The headers of the request are over the limit" },
} as const satisfies Record<string, { status: number; action: ProblemAction; title: string }>;

/** A code of these. */
export type UnreadableRequest = keyof typeof unreadableRequests;

/** The RFC 9457 answer to one: its status, headers and body. */
export const unreadableAnswer = (code: UnreadableRequest, requestId: string) => {
  const { status, action, title } = unreadableRequests[code];
  const { body, headers } = problemDocument(new Problem(code), { status, action, title, requestId, challenge: "" });
  return { status, headers: { ...headers, "X-Request-Id": requestId, Connection: "close" }, body };
};
