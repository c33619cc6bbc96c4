import type { Problem } from "./gen/types.gen.ts";

/**
 * What a call failed with: core's own words (RFC 9457), of which `code` is the stable part; or, in the same shape, `unreachable`
 * when no answer came and `not_core` when what answered does not speak of problems, such as a proxy's page.
 */
export type { Problem };

/** Thrown instead of being returned where `throwOnError` is set. */
export class FleetError extends Error {
  override readonly name = "FleetError";
  readonly problem: Problem;

  constructor(problem: Problem, options?: ErrorOptions) {
    super(`${problem.code}: ${problem.detail}`, options);
    this.problem = problem;
  }
}

/** The problem that a failed call states, whatever was thrown or answered. Never throws. */
export const problemOf = (error: unknown, response: Response | undefined): Problem => {
  if (response === undefined)
    return made("unreachable", 0, error instanceof Error ? error.message : "No answer came", "retry");
  if (isProblem(error)) return error;
  const { status } = response;
  const passing = status === 429 || status >= 500;
  return made("not_core", status, `HTTP ${status} without an explanation`, passing ? "retry" : "stop");
};

const made = (code: string, status: number, detail: string, action: Problem["action"]): Problem => ({
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
  ["type", "title", "detail", "code", "action"].every((name) => typeof Reflect.get(value, name) === "string");
