/**
 * Evaluates the expressions of statements that the model of the database executes: literals, parameters, columns, comparisons and the
 * few functions that exports use. So a condition that a statement lacks is one that the model does not check either. Times are numbers of
 * milliseconds, and so are intervals.
 */

/** A value of a column. */
export type Value = string | number | bigint | boolean | null | Uint8Array;

/** A row by the names of its columns. */
export type Values = Record<string, Value>;

/** What an expression refers to. */
export interface Scope {
  params: readonly unknown[];
  row: Values;
  /** Values that the server has of a row: `@name` in an expression. */
  server: Readonly<Record<string, (row: Values) => Value>>;
}

/** Returns the value in a scope. */
type Expression = (scope: Scope) => Value;

const tokenPattern =
  /\s+|'(?:[^']|'')*'|\$\d+|@\w+|\d+(?:\.\d+)?|"[^"]+"(?:\."[^"]+")?|[a-z_]\w*(?:\.\w+)?|::\w+|=>|<>|<=|>=|[()+\-*<>=,]/giy;

const tokensOf = (text: string): string[] => {
  const tokens: string[] = [];
  tokenPattern.lastIndex = 0;
  while (tokenPattern.lastIndex < text.length) {
    const at = tokenPattern.lastIndex;
    const [token] = tokenPattern.exec(text) ?? [];
    if (token === undefined) throw new Error(`the model does not read ${text.slice(at)}`);
    if (token.trim() !== "") tokens.push(token);
  }
  return tokens;
};

/** Splits a list at its commas, or conditions at a word, where no parenthesis is open. */
export const splitList = (text: string, separator: RegExp = /,/y): string[] => {
  const parts: string[] = [];
  let depth = 0;
  let start = 0;
  let isQuoted = false;
  for (let at = 0; at < text.length; at++) {
    if (text[at] === "'") isQuoted = !isQuoted;
    if (isQuoted) continue;
    if (text[at] === "(") depth++;
    if (text[at] === ")") depth--;
    separator.lastIndex = at;
    const found = depth === 0 ? separator.exec(text)?.[0] : undefined;
    if (found === undefined) continue;
    parts.push(text.slice(start, at).trim());
    start = at + found.length;
    at = start - 1;
  }
  return [...parts, text.slice(start).trim()];
};

/** Orders two values; null when one is null. Numbers of either kind compare as numbers. */
const compare = (a: Value, b: Value): number | null => {
  if (a === null || b === null) return null;
  if (a instanceof Uint8Array && b instanceof Uint8Array) return Buffer.compare(a, b);
  const [one, other] = typeof a === typeof b ? [a, b] : [Number(a), Number(b)];
  return one < other ? -1 : one > other ? 1 : 0;
};

const casts: Readonly<Record<string, (value: Exclude<Value, null>) => Value>> = {
  text: String,
  bigint: (value) => BigInt(value as string),
  int: Number,
  timestamptz: (value) => (typeof value === "string" ? Date.parse(value) : value),
};

const extremes = (scope: Scope, args: readonly Expression[], sign: number): Value =>
  args
    .map((arg) => arg(scope))
    .reduce((best, each) =>
      best === null || (compare(each, best) ?? 0) * sign > 0 ? (each ?? best) : best,
    );

const functions: Readonly<Record<string, (scope: Scope, args: readonly Expression[]) => Value>> = {
  clock_timestamp: ({ server }) => (server.now as () => Value)(),
  greatest: (scope, args) => extremes(scope, args, 1),
  least: (scope, args) => extremes(scope, args, -1),
};

const comparisons: Readonly<Record<string, (order: number) => boolean>> = {
  "=": (order) => order === 0,
  "<>": (order) => order !== 0,
  "<": (order) => order < 0,
  ">": (order) => order > 0,
  "<=": (order) => order <= 0,
  ">=": (order) => order >= 0,
};

/** Reads an expression. Throws for what it does not know. */
const readExpression = (text: string): Expression => {
  const tokens = tokensOf(text);
  let at = 0;
  const peek = (): string => tokens[at]?.toLowerCase() ?? "";
  const take = (expected?: string): string => {
    const token = tokens[at++] ?? "";
    if (expected !== undefined && token.toLowerCase() !== expected)
      throw new Error(`the model expects ${expected} in ${text}`);
    return token;
  };
  const isNext = (word: string): boolean => peek() === word && take() !== "";

  const either = (): Expression => {
    let left = both();
    while (isNext("or")) {
      const one = left;
      const other = both();
      left = (scope) => one(scope) === true || other(scope) === true;
    }
    return left;
  };
  const both = (): Expression => {
    let left = comparison();
    while (isNext("and")) {
      const one = left;
      const other = comparison();
      left = (scope) => one(scope) === true && other(scope) === true;
    }
    return left;
  };
  const comparison = (): Expression => {
    const left = sum();
    if (isNext("is")) {
      const isNegated = isNext("not");
      if (isNext("distinct")) {
        take("from");
        const right = sum();
        return (scope) => compare(left(scope), right(scope)) !== 0 && left(scope) !== right(scope);
      }
      take("null");
      return (scope) => (left(scope) === null) !== isNegated;
    }
    const operator = comparisons[peek()];
    if (operator === undefined) return left;
    take();
    const right = sum();
    return (scope) => {
      const order = compare(left(scope), right(scope));
      return order === null ? null : operator(order);
    };
  };
  const sum = (): Expression => {
    let left = cast();
    while (peek() === "+" || peek() === "-") {
      const sign = take() === "+" ? 1 : -1;
      const one = left;
      const other = cast();
      left = (scope) => {
        const a = one(scope);
        const b = other(scope);
        if (a === null || b === null) return null;
        return typeof a === "bigint" && typeof b === "bigint"
          ? a + BigInt(sign) * b
          : Number(a) + sign * Number(b);
      };
    }
    return left;
  };
  const cast = (): Expression => {
    let inner = primary();
    while (peek().startsWith("::")) {
      const to = casts[take().slice(2)];
      if (to === undefined) throw new Error(`the model does not know a cast in ${text}`);
      const from = inner;
      inner = (scope) => {
        const value = from(scope);
        return value === null ? null : to(value);
      };
    }
    return inner;
  };
  const primary = (): Expression => {
    const token = take();
    if (token === "(") {
      const inner = either();
      take(")");
      return inner;
    }
    if (token.startsWith("'")) return () => token.slice(1, -1).replaceAll("''", "'");
    if (token.startsWith("$"))
      return ({ params }) => (params[Number(token.slice(1)) - 1] ?? null) as Value;
    if (token.startsWith("@"))
      return ({ row, server }) => {
        const constant = server[token.slice(1)];
        if (constant === undefined) throw new Error(`the model does not know ${token}`);
        return constant(row);
      };
    if (/^\d/.test(token)) return () => Number(token);
    const name = token.toLowerCase();
    if (name === "null" || name === "default") return () => null;
    if (name === "true" || name === "false") return () => name === "true";
    if (name === "case") return cases();
    if (isNext("(")) return call(name);
    const column = token.replaceAll('"', "").split(".").at(-1) ?? "";
    return ({ row }) => {
      const value = row[token] ?? row[column];
      if (value === undefined) throw new Error(`the model does not know the column ${token}`);
      return value;
    };
  };
  const cases = (): Expression => {
    if (isNext("end")) return () => null;
    if (isNext("else")) {
      const otherwise = either();
      take("end");
      return otherwise;
    }
    take("when");
    const applies = either();
    take("then");
    const value = either();
    const others = cases();
    return (scope) => (applies(scope) === true ? value(scope) : others(scope));
  };
  const call = (name: string): Expression => {
    if (name === "extract") {
      take("epoch");
      take("from");
      const inner = either();
      take(")");
      return (scope) => {
        const value = inner(scope);
        return value === null ? null : Number(value) / 1000;
      };
    }
    if (name === "make_interval") {
      take("secs");
      take("=>");
      const inner = either();
      take(")");
      return (scope) => Number(inner(scope)) * 1000;
    }
    const run = functions[name];
    if (run === undefined) throw new Error(`the model does not know the function ${name}`);
    const args: Expression[] = [];
    while (!isNext(")")) {
      args.push(either());
      if (peek() === ",") take();
    }
    return (scope) => run(scope, args);
  };

  const expression = either();
  if (at < tokens.length)
    throw new Error(`the model does not read ${tokens.slice(at).join(" ")} in ${text}`);
  return expression;
};

/** Creates the function that evaluates the text of an expression, which it reads once. */
export const createEvaluate = () => {
  const expressions = new Map<string, Expression>();
  return (text: string, scope: Scope): Value => {
    const expression = expressions.get(text) ?? readExpression(text);
    expressions.set(text, expression);
    return expression(scope);
  };
};
