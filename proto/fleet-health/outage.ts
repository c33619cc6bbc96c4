import * as v from "valibot";
import { IsoTimestamp } from "../values.ts";

/** A time in which core could not receive: it counts for no threshold of a host. */
export const OutageView = v.strictObject({
  began_at: IsoTimestamp,
  /** Null while it lasts. */
  ended_at: v.nullable(IsoTimestamp),
  /** From then on the silence of hosts counts: they had `return_seconds` to come back. */
  counted_from: v.nullable(IsoTimestamp),
  /** True if cores went on, and the database's clock skipped this time; absent otherwise. */
  is_clock_skip: v.optional(v.boolean()),
});

/** A time in which core could not receive. */
export type OutageView = v.InferOutput<typeof OutageView>;
