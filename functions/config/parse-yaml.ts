import * as v from "valibot";
import { Secret } from "#kit/secret.ts";
import { anyTokens, parseTree } from "#proto/collector-config/tree.ts";

/**
 * Transforms the YAML of a variable by a schema into a `Secret`; `faultOf` returns why it rejects a value that the schema accepts. Faults name
 * the position in the text, and quote nothing.
 */
export const secretYaml = <Schema extends v.GenericSchema>(
  schema: Schema,
  faultOf: (output: v.InferOutput<Schema>) => string | undefined = () => undefined,
) =>
  v.rawTransform<string, Secret<v.InferOutput<Schema>>>(
    ({ dataset: { value }, addIssue, NEVER }) => {
      const file = parseYaml(schema, value);
      const fault = "fault" in file ? file.fault : faultOf(file.output);
      if ("output" in file && fault === undefined) return new Secret(file.output);
      addIssue({ message: fault ?? "is invalid" });
      return NEVER;
    },
  );

const parseYaml = <Schema extends v.GenericSchema>(
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
