/** An attribute of a resource, in lower case: `emails`, or with a sub-attribute `name.givenname`. */
export interface ScimAttribute {
  name: string;
  sub: string | null;
}

/** An operator that compares an attribute with a value (RFC 7644, 3.4.2.2). */
type ScimComparison = "eq" | "ne" | "co" | "sw" | "ew" | "gt" | "ge" | "lt" | "le";

/** A value of a filter. */
export type ScimValue = string | number | boolean | null;

/** A parsed filter. `has`: one element of a list matches the inner filter. */
export type ScimFilter =
  | { kind: "and" | "or"; left: ScimFilter; right: ScimFilter }
  | { kind: "not"; filter: ScimFilter }
  | { kind: "present"; attribute: ScimAttribute }
  | { kind: "compare"; attribute: ScimAttribute; operator: ScimComparison; value: ScimValue }
  | { kind: "has"; name: string; filter: ScimFilter };

/** The target of a PATCH operation: `members[value eq "…"]`, `emails[type eq "work"].value`, `name.givenName`. */
export interface ScimPath extends ScimAttribute {
  filter: ScimFilter | null;
}

/** A filter or path that does not follow the grammar. The message quotes nothing of it. */
export class ScimSyntaxError extends Error {
  override readonly name = "ScimSyntaxError";
}

const lengthMax = 4096;
const depthMax = 16;
const comparisons: readonly string[] = ["eq", "ne", "co", "sw", "ew", "gt", "ge", "lt", "le"];
/** Core schemas may precede an attribute: `urn:…:core:2.0:User:userName` is `userName`. */
const corePrefix = /^urn:ietf:params:scim:schemas:core:2\.0:(?:user|group):/;
const token =
  /\s*(?:([()[\]])|("(?:[^"\\\p{Cc}]|\\["\\/bfnrtu])*")|(-?\d+(?:\.\d+)?)(?![\w.])|([A-Za-z][\w$:.-]*))/uy;
const subAttribute = /\.([A-Za-z][\w$-]*)/y;

/** Parses a filter. Throws `ScimSyntaxError`. */
export const parseScimFilter = (text: string): ScimFilter => {
  const reader = createReader(text);
  const filter = readOr(reader, 0);
  reader.end();
  return filter;
};

/** Parses the path of a PATCH operation. Throws `ScimSyntaxError`. */
export const parseScimPath = (text: string): ScimPath => {
  const reader = createReader(text);
  const attribute = attributeOf(reader.word());
  if (!reader.takes("[")) {
    reader.end();
    return { ...attribute, filter: null };
  }
  if (attribute.sub !== null) throw new ScimSyntaxError("a sub-attribute has no filter");
  const filter = readOr(reader, 1);
  reader.expect("]");
  const sub = reader.sub();
  reader.end();
  return { ...attribute, filter, sub };
};

/** Returns an attribute by its name in any case, with or without the URN of its core schema. Throws `ScimSyntaxError`. */
export const attributeOf = (text: string): ScimAttribute => {
  const path = text.toLowerCase().replace(corePrefix, "");
  // The names of extensions have dots and colons: `urn:…:enterprise:2.0:User:manager`.
  if (path.startsWith("urn:")) return { name: path, sub: null };
  const match = /^([a-z][\w$-]*)(?:\.([a-z$][\w$-]*))?$/.exec(path);
  if (!match?.[1]) throw new ScimSyntaxError("an attribute's name is malformed");
  return { name: match[1], sub: match[2] ?? null };
};

type Reader = ReturnType<typeof createReader>;

const createReader = (text: string) => {
  if (text.length > lengthMax)
    throw new ScimSyntaxError(`it has more than ${lengthMax} characters`);
  let at = 0;
  const peek = (): RegExpExecArray | null => {
    token.lastIndex = at;
    return token.exec(text);
  };
  const next = (): RegExpExecArray => {
    const found = peek();
    if (!found) throw new ScimSyntaxError("it ends too early or has an unknown sign");
    at += found[0].length;
    return found;
  };
  const takes = (what: string) => {
    const found = peek();
    const matches = found?.[1] === what || found?.[4]?.toLowerCase() === what;
    if (found && matches) at += found[0].length;
    return matches;
  };
  return {
    takes,
    expect: (what: string) => {
      if (!takes(what)) throw new ScimSyntaxError(`${what} is missing`);
    },
    word: () => {
      const word = next()[4];
      if (word === undefined) throw new ScimSyntaxError("an attribute or operator is missing");
      return word;
    },
    value: (): ScimValue => {
      const [, , quoted, number, word] = next();
      if (quoted !== undefined) return stringOf(quoted);
      if (number !== undefined) return Number(number);
      const known = { true: true, false: false, null: null } as const;
      const name = word?.toLowerCase();
      if (name === "true" || name === "false" || name === "null") return known[name];
      throw new ScimSyntaxError("a value is missing");
    },
    /** Returns the sub-attribute that follows a bracket at once, in lower case. */
    sub: () => {
      subAttribute.lastIndex = at;
      const found = subAttribute.exec(text);
      if (found) at += found[0].length;
      return found?.[1]?.toLowerCase() ?? null;
    },
    end: () => {
      if (text.slice(at).trim() !== "")
        throw new ScimSyntaxError("it does not end where it should");
    },
  };
};

const stringOf = (quoted: string) => {
  try {
    return JSON.parse(quoted) as string;
  } catch {
    throw new ScimSyntaxError("a string is malformed");
  }
};

const readOr = (reader: Reader, depth: number): ScimFilter => {
  if (depth > depthMax) throw new ScimSyntaxError(`it nests deeper than ${depthMax}`);
  let left = readAnd(reader, depth);
  while (reader.takes("or")) left = { kind: "or", left, right: readAnd(reader, depth) };
  return left;
};

const readAnd = (reader: Reader, depth: number): ScimFilter => {
  let left = readTerm(reader, depth);
  while (reader.takes("and")) left = { kind: "and", left, right: readTerm(reader, depth) };
  return left;
};

const readTerm = (reader: Reader, depth: number): ScimFilter => {
  if (reader.takes("not")) {
    reader.expect("(");
    const filter = readOr(reader, depth + 1);
    reader.expect(")");
    return { kind: "not", filter };
  }
  if (reader.takes("(")) {
    const filter = readOr(reader, depth + 1);
    reader.expect(")");
    return filter;
  }
  const attribute = attributeOf(reader.word());
  if (!reader.takes("[")) return readComparison(reader, attribute);
  if (attribute.sub !== null) throw new ScimSyntaxError("a sub-attribute has no filter");
  const filter = readOr(reader, depth + 1);
  reader.expect("]");
  const sub = reader.sub();
  if (sub === null) return { kind: "has", name: attribute.name, filter };
  // Entra ID's own form: `emails[type eq "work"].value eq "…"`.
  const right = readComparison(reader, { name: sub, sub: null });
  return { kind: "has", name: attribute.name, filter: { kind: "and", left: filter, right } };
};

const readComparison = (reader: Reader, attribute: ScimAttribute): ScimFilter => {
  const operator = reader.word().toLowerCase();
  if (operator === "pr") return { kind: "present", attribute };
  if (!comparisons.includes(operator)) throw new ScimSyntaxError("the operator is not known");
  return {
    kind: "compare",
    attribute,
    operator: operator as ScimComparison,
    value: reader.value(),
  };
};

/** Reports whether an element of a list matches a filter. Strings are compared in any case. Throws `ScimSyntaxError` for nested lists. */
export const matchesScimFilter = (
  filter: ScimFilter,
  element: Readonly<Record<string, unknown>>,
): boolean => {
  switch (filter.kind) {
    case "and":
      return matchesScimFilter(filter.left, element) && matchesScimFilter(filter.right, element);
    case "or":
      return matchesScimFilter(filter.left, element) || matchesScimFilter(filter.right, element);
    case "not":
      return !matchesScimFilter(filter.filter, element);
    case "present":
      return elementValue(element, filter.attribute) != null;
    case "compare":
      return compares(elementValue(element, filter.attribute), filter.operator, filter.value);
    case "has":
      throw new ScimSyntaxError("a filter within a filter is not supported");
  }
};

const elementValue = (
  element: Readonly<Record<string, unknown>>,
  { name, sub }: ScimAttribute,
): unknown => {
  if (sub !== null) throw new ScimSyntaxError("an element has no sub-attributes");
  return Object.entries(element).find(([key]) => key.toLowerCase() === name)?.[1];
};

const compares = (found: unknown, operator: ScimComparison, value: ScimValue) => {
  const a = plain(found);
  const b = plain(value);
  if (operator === "eq") return a === b;
  if (operator === "ne") return a !== b;
  if (typeof a !== "string" || typeof b !== "string") return false;
  if (operator === "co") return a.includes(b);
  if (operator === "sw") return a.startsWith(b);
  if (operator === "ew") return a.endsWith(b);
  if (operator === "gt") return a > b;
  if (operator === "ge") return a >= b;
  return operator === "lt" ? a < b : a <= b;
};

/** Converts a value for comparison: absent equals null, and Entra ID sends booleans as text. */
const plain = (value: unknown) => {
  if (value === null || value === undefined) return null;
  return typeof value === "number" ? value : String(value).toLowerCase();
};
