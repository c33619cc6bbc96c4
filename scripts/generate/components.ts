import type { JsonSchema } from "./json-schema.ts";

type Json = Record<string, unknown>;

/** Replaces each schema that has a name by a reference to it, also within others. Returns the components that it has replaced. */
export const nameSchemas = (
  part: unknown,
  named: ReadonlyMap<string, JsonSchema>,
): { part: unknown; schemas: Record<string, unknown> } => {
  const names = new Map([...named].map(([name, schema]) => [JSON.stringify(schema), name]));
  const schemas: Record<string, unknown> = {};
  const within = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(replaced);
    if (typeof value !== "object" || value === null) return value;
    return Object.fromEntries(
      Object.entries(value).map(([name, member]) => [
        name,
        name === "example" || name === "examples" ? member : replaced(member),
      ]),
    );
  };
  const replaced = (value: unknown): unknown => {
    const name = typeof value === "object" ? names.get(JSON.stringify(value)) : undefined;
    if (name === undefined) return within(value);
    schemas[name] ??= within(value);
    return { $ref: `#/components/schemas/${name}` };
  };
  return { part: replaced(part), schemas: sorted(schemas) };
};

/** An operation as far as its shared parts go. */
interface Operation {
  tags: readonly string[];
  parameters?: readonly Json[];
  responses: Readonly<Record<string, Json>>;
}

type Paths = Readonly<Record<string, Readonly<Record<string, Operation>>>>;

/**
 * Replaces the parameters and responses that several operations share by references. A parameter's component has its name, after the first
 * operation's tag where others of that name differ; a response is named by `nameOf`, if at all.
 */
export const shareParts = (
  paths: Paths,
  nameOf: (status: string, response: Json) => string | undefined,
): { paths: object; parameters: object; responses: object } => {
  const operations = Object.values(paths).flatMap((methods) => Object.values(methods));
  const parameters = createShared("parameters");
  const responses = createShared("responses");
  for (const { tags, parameters: own = [], responses: answers } of operations) {
    for (const each of own)
      parameters.count(each, [pascal(String(each.name)), pascal(`${tags[0]}_${each.name}`)]);
    for (const [status, each] of Object.entries(answers)) {
      const name = nameOf(status, each);
      if (name !== undefined) responses.count(each, [name, `${name}${status}`]);
    }
  }
  const share = ({ parameters: own, ...operation }: Operation) => ({
    ...operation,
    ...(own ? { parameters: own.map(parameters.refer) } : {}),
    responses: Object.fromEntries(
      Object.entries(operation.responses).map(([status, each]) => [status, responses.refer(each)]),
    ),
  });
  const shared = Object.entries(paths).map(([path, methods]) => [
    path,
    Object.fromEntries(
      Object.entries(methods).map(([method, operation]) => [method, share(operation)]),
    ),
  ]);
  return {
    paths: Object.fromEntries(shared),
    parameters: parameters.components(),
    responses: responses.components(),
  };
};

/** Counts equal parts, and refers to those that are there twice. */
const createShared = (section: "parameters" | "responses") => {
  const parts = new Map<string, { part: Json; count: number; names: readonly string[] }>();
  let nameByText: ReadonlyMap<string, string> | undefined;
  const nameAll = () => {
    const taken = new Map<string, string>();
    const mostUsed = [...parts].toSorted(([, a], [, b]) => b.count - a.count);
    for (const [text, { count, names }] of mostUsed) {
      const free = names.find((name) => !taken.has(name));
      if (count > 1 && free !== undefined) taken.set(free, text);
    }
    return new Map([...taken].map(([name, text]) => [text, name]));
  };
  return {
    count: (part: Json, names: readonly string[]) => {
      const text = JSON.stringify(part);
      const { count } = parts.get(text) ?? { count: 0 };
      parts.set(text, { part, count: count + 1, names: parts.get(text)?.names ?? names });
    },
    refer: (part: Json): Json => {
      nameByText ??= nameAll();
      const name = nameByText.get(JSON.stringify(part));
      return name === undefined ? part : { $ref: `#/components/${section}/${name}` };
    },
    components: (): object =>
      sorted(
        Object.fromEntries(
          [...(nameByText ?? [])].map(([text, name]) => [name, parts.get(text)?.part]),
        ),
      ),
  };
};

/** Writes `not_found` as `NotFound`. */
export const pascal = (name: string): string =>
  name
    .split(/[^A-Za-z0-9]/)
    .map((word) => word.charAt(0).toUpperCase() + word.slice(1))
    .join("");

/** Returns a record whose names are in order. */
export const sorted = <Value>(record: Record<string, Value>): Record<string, Value> =>
  Object.fromEntries(Object.entries(record).sort(([a], [b]) => (a < b ? -1 : 1)));
