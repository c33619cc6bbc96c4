import type { JsonSchema } from "./json-schema.ts";

/** What a command line has to know of an operation's field; a field without a type is a text. */
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
    $ref?: string;
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
  const { paths } = document as { paths: Record<string, Record<string, Described>> };
  const operations = Object.entries(paths).flatMap(([url, methods]) =>
    Object.entries(methods)
      .filter(([, { security }]) => security.some((each) => "bridgeToken" in each))
      .map(
        ([method, described]) =>
          [
            described.operationId,
            { method: method.toUpperCase(), url, ...requestOf(document, described) },
          ] as const,
      ),
  );
  // Texts are read by commands of their own.
  const printed = operations.filter(([, { answers }]) => answers !== "text");
  return Object.fromEntries(printed.toSorted(([a], [b]) => (a < b ? -1 : 1)));
};

const requestOf = (
  document: object,
  { parameters = [], requestBody, responses }: Described,
): Omit<Operation, "method" | "url"> => {
  const resolve = <Value extends object>(value: Value): Value => resolveIn(document, value);
  const at = (place: "path" | "query") => {
    const fields = parameters
      .map(resolve)
      .filter((each) => each.in === place)
      .map(({ name, required, schema }) => [name, fieldOf(resolve(schema), required)] as const);
    return fields.length === 0 ? {} : { [place]: Object.fromEntries(fields) };
  };
  const body = requestBody?.content["application/json"];
  const [, success = {}] =
    Object.entries(responses).find(([status]) => status.startsWith("2")) ?? [];
  return {
    ...at("path"),
    ...at("query"),
    ...(body ? { body: fieldsOf(resolve(body.schema), resolve) } : {}),
    answers: answerOf(resolve(success), resolve),
  };
};

type Resolve = <Value extends object>(value: Value) => Value;

const resolveIn = <Value extends object>(document: object, value: Value): Value => {
  const { $ref: ref } = value as { $ref?: string };
  if (ref === undefined) return value;
  const found = ref
    .split("/")
    .slice(1)
    .reduce<unknown>((within, name) => Reflect.get(Object(within), name), document);
  return resolveIn(document, found as Value);
};

const fieldsOf = (schema: JsonSchema, resolve: Resolve): Record<string, Field> => {
  const { properties = {}, required = [] } = schema as {
    properties?: Record<string, JsonSchema>;
    required?: readonly string[];
  };
  return Object.fromEntries(
    Object.entries(properties).map(([name, field]) => [
      name,
      fieldOf(resolve(field), required.includes(name)),
    ]),
  );
};

const fieldOf = (schema: JsonSchema, required: boolean): Field => {
  // A list that may be given as one value is a list.
  const [widest = schema] = (schema.anyOf as JsonSchema[] | undefined) ?? [];
  const { type, items } = widest as { type?: string; items?: JsonSchema };
  const choices = (widest.enum ?? items?.enum) as readonly string[] | undefined;
  return {
    ...(type === undefined || type === "string" ? {} : { type }),
    ...(choices ? { choices } : {}),
    ...(required ? { required } : {}),
  };
};

const answerOf = (
  { content }: Described["responses"][string],
  resolve: Resolve,
): Operation["answers"] => {
  if (content === undefined) return "nothing";
  const json = content["application/json"];
  if (json === undefined) return "text";
  const members = fieldsOf(resolve(json.schema), resolve);
  if (!("items" in members)) return "record";
  return "next_cursor" in members ? "pages" : "items";
};
