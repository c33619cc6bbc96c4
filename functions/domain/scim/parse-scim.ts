import * as v from "valibot";
import { Problem } from "#functions/problems.ts";
import { UnsupportedFilter } from "#functions/store/scim/filter.ts";
import { parseScimPath, type ScimPath, ScimSyntaxError } from "#proto/scim/filter.ts";
import { type ScimOperation, ScimPatch } from "#proto/scim/resources.ts";

/** Returns the parsed value of a request. Throws `scim_value_invalid` with the path of the first fault and never its value. */
export const parseScim = <Schema extends v.GenericSchema>(
  schema: Schema,
  value: unknown,
): v.InferOutput<Schema> => {
  const parsed = v.safeParse(schema, withCanonicalNames(value), {
    abortEarly: true,
    abortPipeEarly: true,
  });
  if (parsed.success) return parsed.output;
  const [issue] = parsed.issues;
  const path = v.getDotPath(issue)?.slice(0, 200) ?? "the body";
  const message = issue.message.startsWith("Invalid")
    ? "is required or has a wrong type"
    : issue.message;
  throw new Problem("scim_value_invalid", { detail: `${path} ${message}` });
};

/** Returns the operations of a PATCH. Throws `scim_syntax_invalid`. */
export const parseOperations = (body: unknown): readonly ScimOperation[] => {
  try {
    return parseScim(ScimPatch, body).operations;
  } catch (error) {
    if (error instanceof Problem)
      throw new Problem("scim_syntax_invalid", {
        detail: error.options.detail ?? "",
        cause: error,
      });
    throw error;
  }
};

/** Returns the path of an operation. Throws `scim_path_invalid`. */
const parsePath = (text: string): ScimPath => {
  try {
    return parseScimPath(text);
  } catch (error) {
    if (!(error instanceof ScimSyntaxError)) throw error;
    throw new Problem("scim_path_invalid", {
      detail: `The path is malformed: ${error.message}`,
      cause: error,
    });
  }
};

/**
 * Returns the targets of an operation with their values. Without a path the value's members are paths themselves, as in
 * `{"name.givenName": "Ada"}`. Throws `scim_path_invalid` and `scim_target_missing`.
 */
export const targetsOf = ({
  op,
  path,
  value,
}: ScimOperation): { path: ScimPath; value: unknown }[] => {
  if (path != null && path !== "") return [{ path: parsePath(path), value }];
  if (op === "remove")
    throw new Problem("scim_target_missing", { detail: "A remove needs a path" });
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw new Problem("scim_value_invalid", {
      detail: "An operation without a path needs an object",
    });
  return Object.entries(value)
    .filter(([name]) => !readOnlyNames.includes(name.toLowerCase()))
    .map(([name, member]) => ({ path: parsePath(name), value: member }));
};

const readOnlyNames = ["schemas", "id", "meta"];

/** Throws `scim_read_only` for an attribute that only core sets. */
export const refuseReadOnly = (name: string): void => {
  if (readOnlyNames.includes(name))
    throw new Problem("scim_read_only", { detail: `${name} is read-only` });
};

/** The problem of a path of a PATCH that names no attribute of a resource. */
export const unknownPath = (resource: "user" | "group"): Problem =>
  new Problem("scim_path_invalid", { detail: `The path names no attribute of a ${resource}` });

const names = [
  "schemas",
  "operations",
  "op",
  "path",
  "value",
  "id",
  "userName",
  "externalId",
  "active",
  "displayName",
  "name",
  "formatted",
  "givenName",
  "familyName",
  "emails",
  "type",
  "primary",
  "members",
];
const canonicalOf = new Map(names.map((name) => [name.toLowerCase(), name]));

/** Returns the canonical spelling of an attribute's name in any case; other names are returned unchanged. */
export const canonicalName = (name: string): string => canonicalOf.get(name.toLowerCase()) ?? name;

/** Returns a JSON value whose members have the canonical names, because SCIM's names have no case (RFC 7643, 2.1). */
const withCanonicalNames = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(withCanonicalNames);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [
      canonicalName(name),
      withCanonicalNames(member),
    ]),
  );
};

/** Returns what `list` does. Throws `scim_filter_invalid` for a filter that core does not support. */
export const withFilterProblem = async <Result>(list: () => Promise<Result>): Promise<Result> => {
  try {
    return await list();
  } catch (error) {
    if (!(error instanceof UnsupportedFilter)) throw error;
    throw new Problem("scim_filter_invalid", {
      detail: `The filter is not supported: ${error.message}`,
      cause: error,
    });
  }
};
