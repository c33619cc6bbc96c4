import { dereference } from "./dereference.ts";
import type { JsonSchema } from "./json-schema.ts";

/** An operation's field as a command line needs it; one without a type is a text. */
interface Field {
  type?: string;
  choices?: readonly string[];
  required?: true;
}

/** The fields of a request by where they stand, and the form of its answer. */
interface Operation {
  method: string;
  url: string;
  path?: Record<string, Field>;
  query?: Record<string, Field>;
  body?: Record<string, Field>;
  answers: "pages" | "items" | "record" | "text" | "nothing";
}

interface Described {
  operationId: string;
  security: readonly object[];
  parameters?: readonly {
    name: string;
    in: "path" | "query";
    required: boolean;
    schema: JsonSchema;
  }[];
  requestBody?: { content: Readonly<Record<string, { schema: JsonSchema }>> };
  responses: Readonly<
    Record<string, { content?: Readonly<Record<string, { schema: JsonSchema }>> }>
  >;
}

/** Returns the operations that an operator may call, for the command line (admin/commands/operations.json), from the OpenAPI document. */
export const operationsOf = (document: object): Record<string, Operation> => {
  const { paths } = dereference<{ paths: Record<string, Record<string, Described>> }>(document);
  const operations = Object.entries(paths).flatMap(([url, methods]) =>
    Object.entries(methods)
      .filter(([, { security }]) => security.some((each) => "bridgeToken" in each))
      .map(([method, described]): [string, Operation] => [
        described.operationId,
        { method: method.toUpperCase(), url, ...requestOf(described) },
      ]),
  );
  // Texts are read by commands of their own.
  const printed = operations.filter(([, { answers }]) => answers !== "text");
  return Object.fromEntries(printed.toSorted(([a], [b]) => (a < b ? -1 : 1)));
};

const requestOf = ({
  parameters = [],
  requestBody,
  responses,
}: Described): Omit<Operation, "method" | "url"> => {
  const at = (place: "path" | "query") => {
    const fields = parameters
      .filter((each) => each.in === place)
      .map(({ name, required, schema }) => [name, fieldOf(schema, required)] as const);
    return fields.length === 0 ? {} : { [place]: Object.fromEntries(fields) };
  };
  const body = requestBody?.content["application/json"];
  const [, success = {}] =
    Object.entries(responses).find(([status]) => status.startsWith("2")) ?? [];
  return {
    ...at("path"),
    ...at("query"),
    ...(body ? { body: fieldsOf(body.schema) } : {}),
    answers: answerOf(success),
  };
};

const fieldsOf = (schema: JsonSchema): Record<string, Field> => {
  const { properties = {}, required = [] } = schema as {
    properties?: Record<string, JsonSchema>;
    required?: readonly string[];
  };
  return Object.fromEntries(
    Object.entries(properties).map(([name, field]) => [
      name,
      fieldOf(field, required.includes(name)),
    ]),
  );
};

const fieldOf = (schema: JsonSchema, required: boolean): Field => {
  // A list that may be given as one value is a list.
  const [widest = schema] = (schema.anyOf as JsonSchema[] | undefined) ?? [];
  const {
    type,
    items,
    enum: few = items?.enum,
  } = widest as { type?: string; items?: JsonSchema; enum?: unknown };
  const choices = few as readonly string[] | undefined;
  return {
    ...(type === undefined || type === "string" ? {} : { type }),
    ...(choices ? { choices } : {}),
    ...(required ? { required } : {}),
  };
};

const answerOf = ({ content }: Described["responses"][string]): Operation["answers"] => {
  if (content === undefined) return "nothing";
  const json = content["application/json"];
  if (json === undefined) return "text";
  const members = fieldsOf(json.schema);
  if (!("items" in members)) return "record";
  return "next_cursor" in members ? "pages" : "items";
};
