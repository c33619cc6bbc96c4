import { CodedProblem, type ProblemAction } from "./problem.ts";

/** The `Retry-After` of a temporary refusal that names none. */
const retryAfterSecondsDefault = 5;

/**
 * Returns a problem as an RFC 9457 document with its headers, the form of core and web (docs/api.md). `challenge` is the
 * `WWW-Authenticate` of a 401; a 429 and a 503 always have a `Retry-After`.
 */
export const problemDocument = (
  { code, options }: CodedProblem,
  response: {
    status: number;
    title: string;
    action: ProblemAction;
    requestId: string;
    challenge: string;
  },
): { body: string; headers: Record<string, string> } => {
  const { status, title, action, requestId, challenge } = response;
  const isTemporary = status === 429 || status === 503;
  const retryAfterSeconds =
    options.retryAfterSeconds ?? (isTemporary ? retryAfterSecondsDefault : undefined);
  const document = {
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
  return {
    body: JSON.stringify(document),
    headers: {
      "Content-Type": "application/problem+json",
      "Cache-Control": "no-store",
      ...(status === 401 ? { "WWW-Authenticate": challenge } : {}),
      ...(retryAfterSeconds === undefined
        ? {}
        : { "Retry-After": String(Math.ceil(retryAfterSeconds)) }),
    },
  };
};

/** Problems of bytes that a listener cannot parse as a request for the app: the same for core and web. */
export const unreadableRequests = {
  malformed_request: {
    status: 400,
    action: "fix_request",
    title: "This is not a well-formed HTTP request",
  },
  request_timeout: { status: 408, action: "retry", title: "The request was not complete in time" },
  headers_too_large: {
    status: 431,
    action: "fix_request",
    title: "The headers of the request are over the limit",
  },
} as const satisfies Record<string, { status: number; action: ProblemAction; title: string }>;

/** A code of `unreadableRequests`. */
export type UnreadableRequest = keyof typeof unreadableRequests;

/** Returns the RFC 9457 response to an unreadable request. */
export const unreadableAnswer = (code: UnreadableRequest, requestId: string) => {
  const { status, action, title } = unreadableRequests[code];
  const { body, headers } = problemDocument(new CodedProblem(code), {
    status,
    action,
    title,
    requestId,
    challenge: "",
  });
  return { status, headers: { ...headers, "X-Request-Id": requestId, Connection: "close" }, body };
};
