import type { Problem } from "#client/problem.ts";

/** Returns a refusal in words, with what helps and the id that finds it in core's log. */
export const describeProblem = ({
  code,
  detail,
  action,
  request_id,
  errors = [],
}: Problem): string =>
  [
    `svc-admin: ${detail}`,
    ...errors.map(
      ({ path, message, line }) =>
        `  ${line === undefined ? "" : `line ${line}: `}${path === "" ? "" : `${path} `}${message}`,
    ),
    `  code ${code}, action ${action}${request_id === "" ? "" : `, request id ${request_id}`}`,
    "",
  ].join("\n");

/** Reports whether core has given no answer of its own, so that it may have carried the request out. */
export const isUnanswered = ({ code, status }: Pick<Problem, "code" | "status">): boolean =>
  code === "unreachable" || code === "not_core" || status >= 500;
