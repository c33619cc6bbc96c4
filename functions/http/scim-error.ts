import { scimBasePath, scimMediaType, scimUrn } from "#proto/scim/resources.ts";
import type { ProblemCode } from "../problems.ts";

const scimTypes: Partial<Record<ProblemCode, string>> = {
  malformed_json: "invalidSyntax",
  scim_filter_invalid: "invalidFilter",
  scim_path_invalid: "invalidPath",
  scim_syntax_invalid: "invalidSyntax",
  scim_target_missing: "noTarget",
  scim_value_invalid: "invalidValue",
  scim_read_only: "mutability",
  scim_value_taken: "uniqueness",
};

/** Whether a path is SCIM's, whose errors have a form of their own. */
export const isScimPath = (path: string): boolean => path.startsWith(`${scimBasePath}/`);

/** Returns the body and media type of a problem as SCIM's error message (RFC 7644, 3.12). */
export const scimError = (
  code: ProblemCode,
  { status, detail }: { status: number; detail: string },
) => {
  const scimType = scimTypes[code];
  return {
    body: JSON.stringify({
      schemas: [scimUrn.error],
      status: String(status),
      ...(scimType === undefined ? {} : { scimType }),
      detail,
    }),
    type: `${scimMediaType}; charset=utf-8`,
  };
};
