import type * as v from "valibot";
import type { CamelCase } from "#proto/values.ts";

/** The value that a member of a response is written from: for a text also a time, or bytes. */
type Source<Value> = Value extends string
  ? string extends Value
    ? Value | Date | Uint8Array
    : Value
  : Value;

/** The row that a view is made of. Its other members stay out of the response. */
export type RowOf<View> = { [Name in keyof View as CamelCase<Name>]: Source<View[Name]> };

/** The schema of a response whose members have a name each. */
type ViewSchema = v.GenericSchema & { readonly entries: v.ObjectEntries };

/**
 * Creates the function that returns the view of a row: the members that the schema names, in snake_case, times in RFC 3339 and bytes in
 * hexadecimal.
 */
export const viewOf = <Schema extends ViewSchema>(schema: Schema) => {
  const members = Object.keys(schema.entries).map((name) => [name, camelCase(name)] as const);
  return (row: RowOf<v.InferOutput<Schema>>): v.InferOutput<Schema> => {
    const values = row as Readonly<Record<string, unknown>>;
    return Object.fromEntries(members.map(([name, source]) => [name, written(values[source])]));
  };
};

const camelCase = (name: string): string =>
  name.replace(/_(\w)/g, (_, first: string) => first.toUpperCase());

const written = (value: unknown): unknown => {
  if (value instanceof Date) return value.toISOString();
  return value instanceof Uint8Array ? value.toHex() : value;
};
