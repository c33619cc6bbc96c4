import { type ConversionConfig, toJsonSchema } from "@valibot/to-json-schema";
import type * as v from "valibot";

/** A JSON Schema (draft 2020-12) as OpenAPI 3.1 embeds it. */
export type JsonSchema = Record<string, unknown>;

/**
 * Documents a check by its message, which states what it expects. Digits that are parsed as a number are an integer; a schema that JSON
 * Schema cannot express has its own in its metadata.
 */
const describeCheck: NonNullable<ConversionConfig["overrideAction"]> = ({
  valibotAction,
  jsonSchema,
}) => {
  const metadata =
    valibotAction.type === "metadata" && "metadata" in valibotAction
      ? valibotAction.metadata
      : undefined;
  const { integer: bounds, jsonSchema: own } = (metadata ?? {}) as {
    integer?: { minimum: number; maximum: number };
    jsonSchema?: JsonSchema;
  };
  if (own !== undefined) return own;
  if (bounds !== undefined) return { type: "integer", ...bounds };
  if (valibotAction.type === "ip")
    return { ...jsonSchema, anyOf: [{ format: "ipv4" }, { format: "ipv6" }] };
  if (valibotAction.type === "gt_value") {
    const { minimum: _, ...above } = jsonSchema;
    return above;
  }
  const message = "message" in valibotAction ? valibotAction.message : undefined;
  if (valibotAction.type !== "check" || typeof message !== "string") return undefined;
  const described = jsonSchema.description ? `${jsonSchema.description}; ${message}` : message;
  return { ...boundsOf(message), ...jsonSchema, ...typeOf(message), description: described };
};

const typeOf = (message: string): Partial<JsonSchema> => {
  if (/^must be an integer\b/.test(message)) return { type: "integer" };
  return /^must be an RFC 3339 time\b/.test(message) ? { format: "date-time" } : {};
};

const boundsOf = (message: string): Partial<JsonSchema> => {
  if (!/^must be an integer\b.*2\^53 - 1$/.test(message)) return {};
  return {
    minimum: / from 0 /.test(message) ? 0 : Number.MIN_SAFE_INTEGER,
    maximum: Number.MAX_SAFE_INTEGER,
  };
};

/** The wire carries the input of a schema, in which a field with a default is optional. */
const settings = {
  target: "draft-2020-12",
  typeMode: "input",
  errorMode: "ignore",
  overrideAction: describeCheck,
} as const satisfies ConversionConfig;

/** Returns a valibot schema as JSON Schema. */
export const convertSchema = (schema: v.GenericSchema): JsonSchema => {
  const { $schema: _, ...converted } = toJsonSchema(schema, settings) as JsonSchema;
  return converted;
};
