/**
 * Expressions over the columns of hosts. A statement takes one as it takes a fragment of SQL; core's memory evaluates the same one
 * (evaluate-expression.ts). None is ever null.
 */
import { type SQL, type SQLWrapper, sql } from "drizzle-orm";

/** The value of a constant: a time in milliseconds since the epoch, or infinite. */
export type Constant = number | bigint | string | boolean;

/** A comparison of two values. */
export type Comparator = "=" | "<>" | "<" | "<=" | ">" | ">=";

type Node =
  | { kind: "column"; name: string }
  | { kind: "constant"; value: Constant; isTime?: true }
  | { kind: "and" | "or" | "multiply" | "greatest" | "least"; parts: Expression[] }
  | { kind: "not"; part: Expression }
  | { kind: "compare"; operator: Comparator; left: Expression; right: Expression }
  | { kind: "in"; part: Expression; values: readonly Expression[] }
  /** The column equals a value that the statement finds; it reads no column of the host. */
  | { kind: "found"; column: string; query: SQL }
  /** The time so much later. */
  | { kind: "later"; part: Expression; ms: number }
  /** The time as long before `ms` as the part is after the epoch: of two times, the later one comes first. */
  | { kind: "reversed"; part: Expression; ms: number }
  /** The number of bounds that the time reaches, which ascend. */
  | { kind: "bucket"; part: Expression; bounds: readonly number[] }
  | { kind: "case"; cases: readonly Case[]; otherwise: Expression };

/** An expression over the columns of a host. */
export type Expression = Node & SQLWrapper;

/** The expression of a kind. */
export type ExpressionOf<Kind extends Node["kind"]> = Extract<Expression, { kind: Kind }>;

interface Case {
  when: Expression;
  value: Expression;
}

const expressionOf = (node: Node): Expression => ({ ...node, getSQL: () => toSql(node) });

/** A column of hosts. */
export const column = (name: string): Expression => expressionOf({ kind: "column", name });

/** A constant that is no time. */
export const constant = (value: Constant): Expression => expressionOf({ kind: "constant", value });

/** A time in milliseconds since the epoch, or an infinite one. */
export const time = (ms: number): Expression =>
  expressionOf({ kind: "constant", value: ms, isTime: true });

/** The time so many seconds after another one. */
export const timestampAt = (at: Date, seconds = 0): Expression =>
  time(at.getTime() + seconds * 1000);

/** The time of an event that has not happened. */
export const never = time(Number.NEGATIVE_INFINITY);

/** True of every host. */
export const always = constant(true);
const noHost = constant(false);

/** All of the conditions apply. */
export const and = (...parts: Expression[]): Expression => joined("and", parts, always);

/** One of the conditions applies. */
export const or = (...parts: Expression[]): Expression => joined("or", parts, noHost);

/** PostgreSQL plans a condition by an index only where it stands alone: conditions that decide nothing are left out. */
const joined = (kind: "and" | "or", all: Expression[], neutral: Expression): Expression => {
  const parts = all.filter((part) => part !== neutral);
  return parts.length > 1 ? expressionOf({ kind, parts }) : (parts[0] ?? neutral);
};

/** The condition does not apply. */
export const not = (part: Expression): Expression => expressionOf({ kind: "not", part });

/** Compares a column, given by its name, or an expression with another one. */
export const compare = (
  left: string | Expression,
  operator: Comparator,
  right: Constant | Expression,
): Expression =>
  expressionOf({
    kind: "compare",
    operator,
    left: typeof left === "string" ? column(left) : left,
    right: typeof right === "object" ? right : constant(right),
  });

/** The column equals one of the values. */
export const oneOf = (name: string, values: readonly string[]): Expression =>
  values.length === 0
    ? noHost
    : expressionOf({ kind: "in", part: column(name), values: values.map(constant) });

/** The column equals a value that a statement finds. PostgreSQL runs it once. */
export const found = (name: string, query: SQL): Expression =>
  expressionOf({ kind: "found", column: name, query });

/** The time so much later. */
export const later = (at: Expression, ms: number): Expression =>
  expressionOf({ kind: "later", part: at, ms });

/** The time as long before `ms` as a finite time is after the epoch: the order of times, reversed. */
export const reversed = (at: Expression, ms: number): Expression =>
  expressionOf({ kind: "reversed", part: at, ms });

/** The product of numbers, which may be beyond 2^63. */
export const multiply = (...parts: Expression[]): Expression =>
  expressionOf({ kind: "multiply", parts });

/** The latest of the times. */
export const greatest = (...parts: Expression[]): Expression =>
  expressionOf({ kind: "greatest", parts });

/** The earliest of the times. */
export const least = (...parts: Expression[]): Expression => expressionOf({ kind: "least", parts });

/** The number of bounds, which ascend, that the time reaches. */
export const bucket = (part: Expression, bounds: readonly number[]): Expression =>
  expressionOf({ kind: "bucket", part, bounds });

/** The value of the first condition that applies. */
export const choose = (
  cases: readonly (readonly [when: Expression, value: Expression])[],
  otherwise: Expression,
): Expression =>
  cases.length === 0
    ? otherwise
    : expressionOf({
        kind: "case",
        cases: cases.map(([when, value]) => ({ when, value })),
        otherwise,
      });

const list = (parts: readonly Expression[], separator = sql`, `): SQL =>
  sql.join([...parts], separator);

const toSql = (node: Node): SQL => {
  switch (node.kind) {
    case "column":
      return sql.raw(node.name);
    case "constant":
      return constantSql(node);
    case "and":
      return list(node.parts, sql` and `);
    case "or":
      return list(node.parts, sql` or `);
    case "multiply":
      return list(node.parts, sql`::float8 * `);
    case "greatest":
    case "least":
      return sql`${sql.raw(node.kind)}(${list(node.parts)})`;
    case "not":
      return sql`not ${node.part}`;
    case "compare":
      return sql`${node.left} ${sql.raw(node.operator)} ${node.right}`;
    case "in":
      return sql`${node.part} in (${list(node.values)})`;
    case "found":
      return sql`${sql.raw(node.column)} in (${node.query})`;
    case "later":
      return sql`${node.part} + ${sql.raw(`interval '${node.ms / 1000} seconds'`)}`;
    case "reversed":
      // An interval of seconds alone: days have other lengths in some time zones.
      return sql`${time(node.ms)} - make_interval(secs => extract(epoch from ${node.part})::float8)`;
    case "bucket":
      return sql`width_bucket(${node.part}, ${`{${node.bounds.map(textOfTime).join(",")}}`}::timestamptz[])`;
    case "case":
      return sql`case ${sql.join(
        node.cases.map(({ when, value }) => sql`when ${when} then ${value}`),
        sql` `,
      )} else ${node.otherwise} end`;
  }
};

const constantSql = ({ value, isTime }: Extract<Node, { kind: "constant" }>): SQL => {
  if (isTime) return sql`${textOfTime(Number(value))}::timestamptz`;
  if (typeof value === "bigint") return sql`${value.toString()}::bigint`;
  return typeof value === "string" ? sql`${value}` : sql.raw(String(value));
};

/** Writes a time, or an infinite one, as the database does. Throws for no time. */
export const textOfTime = (ms: number): string => {
  if (ms === Number.POSITIVE_INFINITY) return "infinity";
  return ms === Number.NEGATIVE_INFINITY ? "-infinity" : new Date(ms).toISOString();
};
