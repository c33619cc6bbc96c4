import * as v from "valibot";
import type { FieldError } from "../../kit/problem.ts";
import { Problem } from "../problems.ts";

/** Field errors of a request, by path. Valibot's own messages quote the received value: these never do. */
export const fieldErrors = (issues: readonly v.BaseIssue<unknown>[]): FieldError[] =>
  issues
    .slice(0, 32)
    .map((issue) => ({ path: (v.getDotPath(issue) ?? "").slice(0, 200), message: expectation(issue) }));

const expectation = (issue: v.BaseIssue<unknown>): string => {
  if (issue.type === "strict_object" && issue.expected === "never") return "is not a known field";
  if (issue.kind === "schema" && issue.received === "undefined") return "is required";
  // Messages written by us start in lower case; valibot's defaults start with "Invalid" and quote what was received.
  if (!issue.message.startsWith("Invalid")) return issue.message;
  return issue.expected === null ? `must satisfy ${issue.type}` : `must be ${issue.expected}`;
};

/** The parsed value, or 422 `validation_failed` with every fault's path and expectation. */
export const parse = <Schema extends v.GenericSchema>(schema: Schema, value: unknown): v.InferOutput<Schema> => {
  const result = v.safeParse(schema, value, { abortPipeEarly: true });
  if (result.success) return result.output;
  throw new Problem("validation_failed", { errors: fieldErrors(result.issues) });
};
