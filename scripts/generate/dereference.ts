/** Returns an OpenAPI document in which the parts that references name stand in their places. */
export const dereference = <Document = object>(document: object): Document => {
  const within = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(within);
    if (typeof value !== "object" || value === null) return value;
    const { $ref: ref } = value as { $ref?: unknown };
    if (typeof ref === "string") return within(partOf(document, ref));
    return Object.fromEntries(
      Object.entries(value).map(([name, member]) => [name, within(member)]),
    );
  };
  return within(document) as Document;
};

/** Returns the part that `#/components/schemas/Watch` names. */
const partOf = (document: object, ref: string): unknown =>
  ref
    .split("/")
    .slice(1)
    .reduce<unknown>((part, name) => Reflect.get(Object(part), name), document);
