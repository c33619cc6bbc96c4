import * as v from "valibot";
import type { ValuesOf } from "#kit/env.ts";
import { TextVariable } from "#kit/variables.ts";

/** One schema per variable of the store. */
export const storeVariables = {
  /** where the bytes of envelopes are: `postgres`, or `directory:/path` */
  SVC_INGEST_STORE: v.optional(
    v.pipe(
      TextVariable,
      v.regex(/^(postgres|directory:\/.+)$/, "must be postgres or directory:/path"),
    ),
    "postgres",
  ),
};

/** Returns the store of parsed variables. */
export const storeConfigOf = ({ SVC_INGEST_STORE: location }: ValuesOf<typeof storeVariables>) =>
  location === "postgres"
    ? { kind: "postgres" as const }
    : { kind: "directory" as const, location };
