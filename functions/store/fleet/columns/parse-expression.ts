/**
 * Reads the expressions that rows.ts and predicate.ts make for the database, so that core's memory and the database decide by the same text.
 * It knows the grammar that they use, and throws for any other.
 */
import { is, Name, type SQL, SQL as Statement, StringChunk, sql } from "drizzle-orm";

/** The value of a constant: a time in milliseconds since the epoch, or infinite. */
export type Constant = number | bigint | string | boolean;

/** An expression over the columns of a host. */
export type Expression =
  | { kind: "column"; name: string }
  | { kind: "constant"; value: Constant }
  | { kind: "and" | "or" | "add" | "multiply" | "greatest" | "least"; parts: Expression[] }
  | { kind: "not"; part: Expression }
  | { kind: "compare"; operator: Comparator; left: Expression; right: Expression }
  /** The column equals a value that the statement finds; it reads no column of the host. */
  | { kind: "found"; column: string; query: SQL }
  /** The number of bounds that the value reaches, which ascend. */
  | { kind: "bucket"; part: Expression; bounds: readonly number[] }
  | { kind: "case"; cases: { when: Expression; value: Expression }[]; otherwise: Expression };

/** A comparison of two values. */
export type Comparator = "=" | "<>" | "<" | "<=" | ">" | ">=";

type Token = { text: string } | { text: undefined; value: unknown };

/** Parses an expression. Throws for what it does not know. */
export const parseExpression = (source: SQL): Expression => {
  const tokens = [...tokensOf(source)];
  let at = 0;

  const peek = (ahead = 0) => tokens[at + ahead]?.text?.toLowerCase();
  const take = (...texts: string[]) => {
    const matches = texts.every((text, index) => peek(index) === text);
    if (matches) at += texts.length;
    return matches;
  };
  const unknown = (): Error =>
    new Error(`an expression that core's memory cannot decide, at ${peek() ?? "a value"}`);
  const expect = (text: string) => {
    if (!take(text)) throw unknown();
  };
  const list = (read: () => Expression, ...separator: string[]): Expression[] => {
    const parts = [read()];
    while (take(...separator)) parts.push(read());
    return parts;
  };
  const join = (kind: "and" | "or" | "add" | "multiply", parts: Expression[]): Expression =>
    parts.length === 1 && parts[0] ? parts[0] : { kind, parts };

  const either = (): Expression => join("or", list(both, "or"));
  const both = (): Expression => join("and", list(negated, "and"));
  const negated = (): Expression => (take("not") ? { kind: "not", part: negated() } : compared());
  const compared = (): Expression => {
    const left = sum();
    const equals = (right: Expression): Expression => ({
      kind: "compare",
      operator: "=",
      left,
      right,
    });
    if (take("in", "(")) {
      if (peek() === "select") return found(left, ")");
      const parts = list(sum, ",").map(equals);
      expect(")");
      return join("or", parts);
    }
    if (take("=", "any", "(", "array", "(")) {
      const result = found(left, ")");
      expect(")");
      return result;
    }
    if (take("between")) {
      const from = sum();
      expect("and");
      const bounds: Expression[] = [
        { kind: "compare", operator: ">=", left, right: from },
        { kind: "compare", operator: "<=", left, right: sum() },
      ];
      return { kind: "and", parts: bounds };
    }
    const operator = peek() as Comparator;
    if (!comparisons.has(operator)) return left;
    at += 1;
    return { kind: "compare", operator, left, right: sum() };
  };
  const sum = (): Expression => join("add", list(product, "+"));
  const product = (): Expression => join("multiply", list(value, "*"));
  const value = (): Expression => {
    let result = primary();
    while (take("::")) result = cast(result, tokens[at++]?.text);
    return result;
  };
  const primary = (): Expression => {
    if (take("(")) {
      const inner = either();
      expect(")");
      return inner;
    }
    if (take("case")) return choice();
    for (const kind of ["greatest", "least"] as const)
      if (take(kind, "(")) {
        const parts = list(sum, ",");
        expect(")");
        return { kind, parts };
      }
    if (take("width_bucket", "(")) return bucket();
    if (take("interval")) return { kind: "constant", value: milliseconds(tokens[at++]?.text) };
    const token = tokens[at++];
    const term = token && termOf(token);
    if (term === undefined) throw unknown();
    return term;
  };
  const bucket = (): Expression => {
    const part = sum();
    expect(",");
    const literal = tokens[at++];
    for (const text of ["::", "timestamptz", "[]", ")"]) expect(text);
    const bounds = JSON.parse(
      `[${String(literal?.text === undefined && literal?.value).slice(1, -1)}]`,
    ) as string[];
    return { kind: "bucket", part, bounds: bounds.map(timeOf) };
  };
  const choice = (): Expression => {
    const cases: { when: Expression; value: Expression }[] = [];
    while (take("when")) {
      const when = either();
      expect("then");
      cases.push({ when, value: sum() });
    }
    // Without it a value can be null, which no expression here may be.
    expect("else");
    const otherwise = sum();
    expect("end");
    return { kind: "case", cases, otherwise };
  };
  const found = (left: Expression, end: string): Expression => {
    if (left.kind !== "column") throw unknown();
    const from = at;
    for (let depth = 0; depth > 0 || peek() !== end; at++) {
      if (at >= tokens.length) throw unknown();
      if (peek() === "(") depth += 1;
      if (peek() === ")") depth -= 1;
    }
    const parts = tokens
      .slice(from, at++)
      .map((token) => (token.text === undefined ? sql`${token.value}` : sql.raw(token.text)));
    return { kind: "found", column: left.name, query: sql.join(parts, sql` `) };
  };

  const expression = either();
  if (at < tokens.length) throw unknown();
  return expression;
};

const comparisons: ReadonlySet<string> = new Set(["=", "<>", "<", "<=", ">", ">="]);

const termOf = (token: Token): Expression | undefined => {
  if (token.text === undefined) return { kind: "constant", value: token.value as Constant };
  const { text } = token;
  if (text === "true" || text === "false") return { kind: "constant", value: text === "true" };
  if (text.startsWith("'"))
    return { kind: "constant", value: text.slice(1, -1).replaceAll("''", "'") };
  if (/^-?\d+$/.test(text)) return { kind: "constant", value: Number(text) };
  return /^[a-z_]+$/.test(text) ? { kind: "column", name: text } : undefined;
};

const cast = (expression: Expression, type = ""): Expression => {
  // As core's memory has every number.
  if (type === "float8") return expression;
  if (expression.kind !== "constant") throw new Error(`a column as ${type}`);
  const { value } = expression;
  if (type === "timestamptz") return { kind: "constant", value: timeOf(String(value)) };
  if (type === "bigint") return { kind: "constant", value: BigInt(value as string) };
  if (type === "uuid" || type === "text") return expression;
  throw new Error(`the type ${type}`);
};

/** Returns a time of the database, or an infinite one, in milliseconds since the epoch. */
const timeOf = (text: string) => {
  if (text.endsWith("infinity"))
    return text.startsWith("-") ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY;
  const ms = Date.parse(text);
  if (Number.isNaN(ms)) throw new Error("a time that no clock shows");
  return ms;
};

const unitMs: Readonly<Record<string, number>> = { seconds: 1000, hours: 3_600_000 };

const milliseconds = (literal = "") => {
  const [, amount = "", unit = ""] = /^'([\d.]+) (\w+)'$/.exec(literal) ?? [];
  return Number(amount) * (unitMs[unit] ?? Number.NaN);
};

const tokenPattern = /\s*('(?:[^']|'')*'|"[^"]*"|[a-z_]\w*|-?\d+|[(),]|::|\[\]|[^\s\w'"(),:[]+)/giy;

/** Yields the tokens of a statement, with its parameters as values. */
function* tokensOf(source: SQL): Generator<Token> {
  for (const chunk of source.queryChunks) {
    if (is(chunk, Statement)) yield* tokensOf(chunk);
    else if (is(chunk, StringChunk)) yield* textTokens(chunk.value.join(""));
    else if (is(chunk, Name)) yield { text: chunk.value };
    else yield { text: undefined, value: chunk };
  }
}

function* textTokens(text: string): Generator<Token> {
  const end = text.trimEnd().length;
  tokenPattern.lastIndex = 0;
  while (tokenPattern.lastIndex < end) {
    const match = tokenPattern.exec(text);
    if (match?.[1] === undefined) throw new Error("a text that is no SQL");
    yield { text: match[1] };
  }
}
