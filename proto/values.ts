import * as v from "valibot";

/** An id (UUIDv7) in a path or a body. Other text is 422, not 404. */
export const Id = v.pipe(v.string("must be a UUID"), v.uuid("must be a UUID"), v.toLowerCase());

/** A timestamp in a response: RFC 3339 in UTC with milliseconds. */
export const IsoTimestamp = v.pipe(v.string(), v.isoTimestamp());

/** A text, or a timestamp, that a response may lack. */
export const TextOrNull = v.nullable(v.string());
export const TimestampOrNull = v.nullable(IsoTimestamp);

/** An integer of a body. */
export const Integer = (min: number, max: number) =>
  v.pipe(
    v.number("must be an integer"),
    v.integer("must be an integer"),
    v.minValue(min, `must be at least ${min}`),
    v.maxValue(max, `must be at most ${max}`),
  );

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

/** A query field that may be repeated, as a list; `expected` is the fault of another value, and `tooMany` of more than `countMax`. */
export const Repeatable = <Item extends v.GenericSchema>(
  item: Item,
  { expected, countMax, tooMany }: { expected: string; countMax: number; tooMany: string },
) =>
  v.union(
    [
      v.pipe(v.array(item), v.maxLength(countMax, tooMany)),
      v.pipe(
        item,
        v.transform((one) => [one]),
      ),
    ],
    expected,
  );

/** An integer from `min` to 2^53 - 1. */
export const Count = (min = 0) =>
  v.pipe(
    v.number("must be an integer"),
    v.check((value) => Number.isSafeInteger(value), "must be an integer within 2^53 - 1"),
    v.minValue(min, `must be at least ${min}`),
  );

/** `created_at` as `createdAt`. */
export type CamelCase<Name> = Name extends `${infer First}_${infer Rest}`
  ? `${First}${Capitalize<CamelCase<Rest>>}`
  : Name;

const camelCase = (name: string): string =>
  name.replace(/_(\w)/g, (_, first: string) => first.toUpperCase());

/** Returns the members of a body by their names in camelCase. */
export const inCamelCase = <Body extends object>(body: Body) =>
  Object.fromEntries(Object.entries(body).map(([name, value]) => [camelCase(name), value])) as {
    [Name in keyof Body as CamelCase<Name>]: Body[Name];
  };
