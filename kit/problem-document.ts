import type { Problem, ProblemAction } from "./problem.ts";

/** Without a better guess, when to ask again. */
const retryAfterSecondsDefault = 5;

/**
 * A refusal as an RFC 9457 document and the headers that go with it (contract, section 1): the one form in which core and web
 * answer. `challenge` is the `WWW-Authenticate` of a 401; a 429 and a 503 always say when to ask again.
 */
export const problemDocument = (
  { code, options }: Problem,
  told: { status: number; title: string; action: ProblemAction; requestId: string; challenge: string },
): { body: string; headers: Record<string, string> } => {
  const { status, title, action, requestId, challenge } = told;
  const isTemporary = status === 429 || status === 503;
  const retryAfterSeconds = options.retryAfterSeconds ?? (isTemporary ? retryAfterSecondsDefault : undefined);
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
      ...(retryAfterSeconds === undefined ? {} : { "Retry-After": String(Math.ceil(retryAfterSeconds)) }),
    },
  };
};
