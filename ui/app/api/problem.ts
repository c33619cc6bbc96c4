import * as v from "valibot";

const ProblemDocument = v.object({
  title: v.string(),
  detail: v.optional(v.string()),
  code: v.string(),
  request_id: v.optional(v.string()),
});

/**
 * Why an answer is not there. `code` is the problem document's (contract, section 1), or one of ours: `unreachable` (no answer came),
 * `unreadable` (what came is not what was agreed). `status` is 0 without an answer. Messages are fit to be shown.
 */
export class ApiProblem extends Error {
  readonly code: string;
  readonly status: number;
  /** What to tell whoever reads the server's log. */
  readonly requestId: string | undefined;

  constructor({ code, status, message, requestId }: ApiProblemFields) {
    super(message);
    this.name = "ApiProblem";
    this.code = code;
    this.status = status;
    this.requestId = requestId;
  }
}

interface ApiProblemFields {
  code: string;
  status: number;
  message: string;
  requestId?: string | undefined;
}

/** The problem that a refusal tells: its document (RFC 9457), or its status where a proxy answered instead. */
export const problemOf = async (response: Response): Promise<ApiProblem> => {
  const { status } = response;
  const requestId = response.headers.get("X-Request-Id") ?? undefined;
  const document = v.safeParse(ProblemDocument, await response.json().catch(() => undefined));
  if (!document.success)
    return new ApiProblem({ code: "unreadable", status, message: `The server answered ${status}`, requestId });
  const { title, detail, code, request_id } = document.output;
  return new ApiProblem({ code, status, message: detail ?? title, requestId: request_id ?? requestId });
};
