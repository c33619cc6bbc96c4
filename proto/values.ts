import * as v from "valibot";

/** An id (UUIDv7) in a path or a body. Other text is 422, not 404. */
export const Id = v.pipe(v.string("must be a UUID"), v.uuid("must be a UUID"), v.toLowerCase());

/** A timestamp in a response: RFC 3339 in UTC with milliseconds. */
export const IsoTimestamp = v.pipe(v.string(), v.isoTimestamp());

/** A whole number in a query, documented as an integer. */
export const QueryInteger = (min: number, max: number) =>
  v.pipe(
    v.string("must be given once"),
    v.regex(/^\d{1,12}$/, "must be a whole number"),
    v.metadata({ integer: { minimum: min, maximum: max } }),
    v.transform(Number),
    v.minValue(min, `must be at least ${min}`),
    v.maxValue(max, `must be at most ${max}`),
  );

/** An integer from `min` to 2^53 - 1. */
export const Count = (min = 0) =>
  v.pipe(
    v.number("must be an integer"),
    v.check((value) => Number.isSafeInteger(value), "must be an integer within 2^53 - 1"),
    v.minValue(min, `must be at least ${min}`),
  );
