import * as v from "valibot";
import type { FieldError } from "../kit/problem.ts";
import { Problem } from "../problems.ts";

/** Field errors of a request, by path. Valibot's own messages quote the received value: these never do. */
export const fieldErrors = (issues: readonly v.BaseIssue<unknown>[]): FieldError[] =>
  issues
    .slice(0, 32)
    .map((issue) => ({ path: (v.getDotPath(issue) ?? "").slice(0, 200), message: expectation(issue) }));

const expectation = (issue: v.BaseIssue<unknown>): string => {
  if (issue.type === "strict_object" && issue.expected === "never") return "is not a known field";
  if (issue.expected === null || issue.kind === "validation")
    return issue.requirement === undefined || custom(issue)
      ? issue.message
      : `must satisfy ${issue.type} ${String(issue.requirement)}`;
  return issue.received === "undefined" ? "is required" : `must be ${issue.expected}`;
};

/** Messages written by us start in lower case; valibot's defaults start with "Invalid". */
const custom = (issue: v.BaseIssue<unknown>): boolean => !issue.message.startsWith("Invalid");

/** The parsed value, or 422 `validation_failed` with every fault's path and expectation. */
export const parse = <Schema extends v.GenericSchema>(schema: Schema, value: unknown): v.InferOutput<Schema> => {
  const result = v.safeParse(schema, value, { abortPipeEarly: true });
  if (result.success) return result.output;
  throw new Problem("validation_failed", { errors: fieldErrors(result.issues) });
};
