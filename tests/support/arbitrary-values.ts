import fc from "fast-check";

/** The JSON Schema keywords that the API's document uses. */
export interface JsonSchema {
  $ref?: string;
  type?: "string" | "integer" | "number" | "boolean" | "null" | "array" | "object";
  enum?: readonly unknown[];
  const?: unknown;
  anyOf?: readonly JsonSchema[];
  oneOf?: readonly JsonSchema[];
  format?: string;
  pattern?: string;
  minLength?: number;
  maxLength?: number;
  minimum?: number;
  maximum?: number;
  minItems?: number;
  maxItems?: number;
  items?: JsonSchema;
  properties?: Readonly<Record<string, JsonSchema>>;
  required?: readonly string[];
  additionalProperties?: JsonSchema | boolean;
  propertyNames?: JsonSchema;
  maxProperties?: number;
}

/** Values that exist in the tested core, by field name; without them every request would end at the first lookup. */
export type KnownValues = Readonly<Record<string, readonly unknown[]>>;

/** Generates values that a schema allows; three of four are known ones if the field has any. Throws for an unknown schema. */
export const valuesOf = (
  schema: JsonSchema,
  known: KnownValues,
  name = "",
): fc.Arbitrary<unknown> => {
  const values = known[name];
  const free = freeValuesOf(schema, known, name);
  return values === undefined || schema.type === "array"
    ? free
    : fc.oneof(
        { weight: 3, arbitrary: fc.constantFrom(...values) },
        { weight: 1, arbitrary: free },
      );
};

const freeValuesOf = (
  schema: JsonSchema,
  known: KnownValues,
  name: string,
): fc.Arbitrary<unknown> => {
  const { anyOf, oneOf, ...common } = schema;
  const alternatives = anyOf ?? oneOf;
  if (alternatives)
    return fc.oneof(...alternatives.map((one) => valuesOf({ ...common, ...one }, known, name)));
  if (schema.enum) return fc.constantFrom(...schema.enum);
  if ("const" in schema) return fc.constant(schema.const);
  if (schema.type === "string") return stringsOf(schema);
  if (schema.type === "integer") return fc.integer(boundsOf(schema));
  if (schema.type === "number") return fc.double({ ...boundsOf(schema), noNaN: true });
  if (schema.type === "boolean") return fc.boolean();
  if (schema.type === "null") return fc.constant(null);
  if (schema.type === "array") {
    const { minItems: minLength = 0, maxItems = 5 } = schema;
    return fc.array(valuesOf(schema.items ?? {}, known, name), {
      minLength,
      maxLength: Math.min(maxItems, minLength + 4),
    });
  }
  if (schema.type === "object" && schema.propertyNames?.pattern)
    return dictionariesOf(schema, known);
  if (schema.type === "object") return objectsOf(schema, known);
  if (Object.keys(schema).every((key) => key === "description")) return fc.jsonValue();
  throw new Error(`cannot generate values of ${JSON.stringify(schema)}`);
};

const boundsOf = ({
  minimum = Number.MIN_SAFE_INTEGER,
  maximum = Number.MAX_SAFE_INTEGER,
}: JsonSchema) => ({
  min: minimum,
  max: maximum,
});

/** By their schema: making strings takes longer than drawing forty of them. */
const strings = new Map<string, fc.Arbitrary<string>>();
const stringsOf = (schema: JsonSchema) => {
  const { format, pattern, minLength, maxLength } = schema;
  const key = JSON.stringify({ format, pattern, minLength, maxLength });
  const made = strings.get(key) ?? makeStrings(schema);
  strings.set(key, made);
  return made;
};

const makeStrings = ({ format, pattern, minLength = 0, maxLength = 200 }: JsonSchema) => {
  if (format === "uuid") return fc.uuid();
  if (format === "ipv4") return fc.ipV4();
  if (format === "ipv6") return fc.ipV6();
  // RFC 3339 has years of four digits.
  const years = { min: new Date("0001-01-01"), max: new Date("9999-12-31"), noInvalidDate: true };
  if (format === "date-time") return fc.date(years).map((date) => date.toISOString());
  if (pattern !== undefined) return fc.stringMatching(new RegExp(pattern));
  const length = { minLength, maxLength: Math.min(maxLength, minLength + 200) };
  return fc.oneof(fc.string(length), fc.string({ ...length, unit: "grapheme" }));
};

const dictionariesOf = (
  { propertyNames = {}, additionalProperties, maxProperties = 5 }: JsonSchema,
  known: KnownValues,
): fc.Arbitrary<unknown> =>
  fc.dictionary(
    stringsOf(propertyNames),
    valuesOf(typeof additionalProperties === "object" ? additionalProperties : {}, known),
    {
      maxKeys: maxProperties,
    },
  );

const objectsOf = (
  { properties = {}, required = [] }: JsonSchema,
  known: KnownValues,
): fc.Arbitrary<unknown> =>
  fc.record(
    Object.fromEntries(
      Object.entries(properties).map(([name, field]) => [name, valuesOf(field, known, name)]),
    ),
    { requiredKeys: [...required] },
  );

/** Generates values that break parsers, columns and comparisons. */
export const nastyValues = fc.oneof(
  fc.constantFrom<unknown>(
    "",
    " ",
    "\u0000",
    "a\u0000b",
    "\ud800",
    "\udfff\ud800",
    "\u2028",
    "\u001b[31m",
    "％",
    "%",
    "%00",
    "%zz",
    "_",
    "\\",
    "' or 1=1 --",
    "../..",
    "__proto__",
    "constructor",
    "a".repeat(70_000),
    "٣",
    "1e3",
    "0x10",
    "NaN",
    "null",
    "true",
    "0000-00-00T00:00:00Z",
    "9999-12-31T23:59:59.999Z",
    "+275760-09-13T00:00:00Z",
    "2026-02-30T00:00:00Z",
    "1970-01-01",
    "https://",
    "https://a b/",
    "spiffe://x/../",
    "10.0.0.0/33",
    "::ffff:10.0.0.1/128",
    "0.0.0.0/0",
    "-----BEGIN CERTIFICATE REQUEST-----\n!!!!\n-----END CERTIFICATE REQUEST-----\n",
    "&a [*a]",
    "a: &a [*a, *a]",
    null,
    true,
    false,
    0,
    -0,
    -1,
    0.5,
    1e308,
    2 ** 31,
    2 ** 53,
    -(2 ** 53),
    2 ** 63,
    [],
    {},
    [[]],
    [null],
    { "": null },
  ),
  fc.string({ unit: "binary", maxLength: 20 }),
  fc.double({ noDefaultInfinity: true, noNaN: true }),
  fc.jsonValue(),
);

/** Generates values with one member replaced by a nasty value, removed, or added. */
export const spoiledOf = (values: fc.Arbitrary<unknown>) =>
  fc
    .tuple(values, fc.nat(), nastyValues, fc.constantFrom("replace", "remove", "add"))
    .map(([value, at, nasty, how]) => spoil(value, at, nasty, how));

const spoil = (value: unknown, at: number, nasty: unknown, how: string) => {
  if (typeof value !== "object" || value === null) return nasty;
  const copy = Array.isArray(value) ? [...value] : { ...value };
  const keys = Object.keys(copy);
  const key = keys[at % (keys.length + 1)];
  if (key === undefined || how === "add") {
    // As a JSON parser does: an own property, even with the name `__proto__`.
    const name = typeof nasty === "string" ? nasty : "unheard_of";
    return Array.isArray(copy)
      ? [...copy, nasty]
      : Object.defineProperty(copy, name, { value: nasty, enumerable: true });
  }
  const deeper = Math.floor(at / (keys.length + 1));
  if (how === "remove") Reflect.deleteProperty(copy, key);
  else
    Reflect.set(
      copy,
      key,
      deeper % 2 === 0 ? nasty : spoil(Reflect.get(copy, key), deeper, nasty, how),
    );
  return copy;
};
