import type { Problem } from "./gen/types.gen.ts";

/**
 * Why a call failed: core's problem document (RFC 9457) with its stable `code`; or, in the same form, `unreachable` without a response,
 * and `not_core` for a response that is no problem document, such as a proxy's page.
 */
export type { Problem };

/** Thrown with `throwOnError`. */
export class FleetError extends Error {
  override readonly name = "FleetError";
  readonly problem: Problem;

  constructor(problem: Problem, options?: ErrorOptions) {
    super(`${problem.code}: ${problem.detail}`, options);
    this.problem = problem;
  }
}

/** Returns the problem of a failed call, from its error or its response. Never throws. */
export const problemOf = (error: unknown, response: Response | undefined): Problem => {
  if (response === undefined)
    return made("unreachable", 0, error instanceof Error ? error.message : "No response", "retry");
  if (isProblem(error)) return error;
  const { status } = response;
  const passing = status === 429 || status >= 500;
  return made(
    "not_core",
    status,
    `HTTP ${status} without an explanation`,
    passing ? "retry" : "stop",
  );
};

const made = (
  code: string,
  status: number,
  detail: string,
  action: Problem["action"],
): Problem => ({
  type: `urn:svc:problem:${code}`,
  title: detail,
  status,
  detail,
  code,
  action,
  request_id: "",
});

const isProblem = (value: unknown): value is Problem =>
  typeof value === "object" &&
  value !== null &&
  ["type", "title", "detail", "code", "action"].every(
    (name) => typeof Reflect.get(value, name) === "string",
  );
