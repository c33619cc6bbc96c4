import * as v from "valibot";
import { anyTokens, parseTree } from "#proto/collector-config/tree.ts";

/** Parses the YAML of a setting by a schema. Faults name the position in the text, and quote nothing. */
export const parseYaml = <Schema extends v.GenericSchema>(
  schema: Schema,
  text: string,
): { output: v.InferOutput<Schema> } | { fault: string } => {
  const parsed = parseTree(text, anyTokens);
  if (!parsed.ok) return { fault: `line ${parsed.errors[0]?.line ?? 1} is not valid YAML` };
  const result = v.safeParse(schema, parsed.tree);
  if (result.success) return { output: result.output };
  const [issue] = result.issues;
  return {
    fault: `${v.getDotPath(issue) ?? "the file"} ${issue.type === "strict_object" ? ofObject(issue) : issue.message}`,
  };
};

const ofObject = ({ expected }: v.BaseIssue<unknown>) => {
  if (expected === "Object") return "must be a mapping";
  return expected === "never" ? "is not known" : "is required";
};
