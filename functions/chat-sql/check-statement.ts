import { checkBounds, StatementRefused } from "./statement-bounds.ts";
import { functions, grammar, operators, types, valueFunctions } from "./statement-grammar.ts";
import { type Fields, stringsOf, visitFields } from "./statement-names.ts";

/** The longest statement, in bytes of UTF-8. */
const statementBytesMax = 8 * 1024;
const depthMax = 40;
/** Objects and lists of the syntax tree within each other: about six for each expression. */
const nodeDepthMax = 2_000;
const operatorRun = /[-+*/<>=~!@#%^&|`?]{65}/;

/** PostgreSQL's parser: returns the syntax tree of a text, or throws its error. */
type ParseSql = (text: string) => unknown;

/** The relations that a statement may read, and the names of their columns. */
export interface Readable {
  relations: ReadonlySet<string>;
  columns: ReadonlySet<string>;
  /** Those of the columns that stand for expressions. */
  computed: ReadonlySet<string>;
}

/**
 * Returns the one SELECT of a text, without what follows it. Throws `StatementRefused` when it is anything else, or holds a node, field,
 * relation, function, operator or type that is not on the lists of statement-grammar.ts.
 */
export const checkStatement = (text: string, parse: ParseSql, readable: Readable): string => {
  const bytes = new TextEncoder().encode(text);
  if (bytes.length > statementBytesMax)
    throw new StatementRefused(`the statement is longer than ${statementBytesMax} bytes`);
  if (text.includes("\0") || !text.isWellFormed())
    throw new StatementRefused("the statement holds a character that SQL does not allow");
  if (nestingOf(text) > depthMax) throw new StatementRefused("the statement is nested too deeply");
  // The parser takes time in proportion to the square of such a run: seconds for 8 KiB.
  if (operatorRun.test(text))
    throw new StatementRefused("the statement holds more than 64 operator characters in a row");
  const { stmts = [] } = parsed(text, parse);
  const [only] = stmts;
  if (only === undefined || stmts.length > 1)
    throw new StatementRefused("send exactly one statement");
  if (Object.keys(only.stmt).join() !== "SelectStmt")
    throw new StatementRefused("only SELECT is allowed");
  if (!isShallow(only.stmt, nodeDepthMax))
    throw new StatementRefused("the statement is nested too deeply");
  new StatementCheck(readable, namesIn(only.stmt)).node(only.stmt, { ctes: new Set(), depth: 0 });
  checkBounds(only.stmt, readable);
  const from = only.stmt_location ?? 0;
  return new TextDecoder().decode(
    bytes.subarray(from, only.stmt_len ? from + only.stmt_len : undefined),
  );
};

interface ParsedText {
  stmts?: readonly { stmt: Fields; stmt_location?: number; stmt_len?: number }[];
}

const parsed = (text: string, parse: ParseSql): ParsedText => {
  try {
    return parse(text) as ParsedText;
  } catch (cause) {
    const reason =
      cause instanceof Error && cause.name === "SqlError"
        ? cause.message.slice(0, 200)
        : "it cannot be parsed";
    throw new StatementRefused(`syntax error: ${reason}`, { cause });
  }
};

/** Returns the deepest nesting of brackets; those in strings count too. */
const nestingOf = (text: string) => {
  let depth = 0;
  let deepest = 0;
  for (const character of text) {
    if (character === "(" || character === "[") deepest = Math.max(deepest, ++depth);
    else if (character === ")" || character === "]") depth = Math.max(0, depth - 1);
  }
  return deepest;
};

/** Reports whether a tree is at most this deep. Needs no stack of its own, unlike what walks the tree after it. */
const isShallow = (tree: unknown, depthMax: number) => {
  let level: unknown[] = [tree];
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > depthMax) return false;
    level = level.flatMap((value) =>
      typeof value === "object" && value !== null ? Object.values(value) : [],
    );
  }
  return true;
};

/** The names that a statement introduces. */
interface Introduced {
  names: ReadonlySet<string>;
  /** Functions in FROM by their alias, or by their own name without one, with the columns that all of this name have. */
  functionColumns: ReadonlyMap<string, ReadonlySet<string>>;
}

const introducing = new Set(["ResTarget", "Alias", "CommonTableExpr", "alias"]);

const namesIn = (statement: Fields): Introduced => {
  const names = new Set<string>();
  const functionColumns = new Map<string, Set<string>>();
  visitFields(statement, (key, fields) => {
    if (introducing.has(key)) for (const name of introducedBy(fields)) names.add(name);
    if (key === "RangeFunction") addFunctionColumns(functionColumns, fields);
  });
  return { names, functionColumns };
};

const addFunctionColumns = (functionColumns: Map<string, Set<string>>, range: Fields) => {
  const alias = range.alias as Fields | undefined;
  const called = alias === undefined ? functionNamesIn(range) : [String(alias.aliasname)];
  const declared = stringsOf(alias?.colnames);
  for (const name of called) {
    const own = declared.length > 0 ? declared : [name, "key", "value"];
    const columns = new Set([...own, "ordinality"]);
    functionColumns.set(name, functionColumns.get(name)?.intersection(columns) ?? columns);
  }
};

const introducedBy = ({ name, aliasname, colnames, ctename, aliascolnames }: Fields): string[] => {
  const single = [name, aliasname, ctename].filter((each) => typeof each === "string");
  return [...single, ...stringsOf(colnames), ...stringsOf(aliascolnames)];
};

const functionNamesIn = (tree: Fields): string[] => {
  const names: string[] = [];
  visitFields(tree, (key, fields) => {
    if (key === "funcname") names.push(stringsOf(fields).at(-1) ?? "");
  });
  return names;
};

/** Names that a column gets from its expression. */
const impliedNames = new Set([
  "case",
  "coalesce",
  "nullif",
  "greatest",
  "least",
  "array",
  "row",
  "exists",
  "bool",
  "?column?",
]);

interface Scope {
  /** CTEs that are visible here. */
  ctes: ReadonlySet<string>;
  depth: number;
}

class StatementCheck {
  readonly #readable: Readable;
  readonly #introduced: Introduced;

  constructor(readable: Readable, introduced: Introduced) {
    this.#readable = readable;
    this.#introduced = introduced;
  }

  /** Checks a node in its wrapper, or a list of them. */
  node(value: unknown, scope: Scope): void {
    if (Array.isArray(value)) {
      for (const each of value) this.node(each, scope);
      return;
    }
    const [entry, ...more] = Object.entries(value as Fields);
    // `distinct` without columns and an absent list are an empty node.
    if (entry === undefined) return;
    if (more.length > 0)
      throw new StatementRefused("the statement uses syntax that is not allowed");
    this.fields(entry[0], entry[1] as Fields, scope);
  }

  fields(type: string, fields: Fields, { ctes, depth }: Scope): void {
    const rules = ownOf(grammar, type);
    if (rules === undefined) throw new StatementRefused(`${type} is not allowed`);
    if (depth > 10 * depthMax) throw new StatementRefused("the statement is nested too deeply");
    if (type === "RangeFunction") checkFunctionsInFrom(fields.functions);
    let scope: Scope = { ctes, depth: depth + 1 };
    if (type === "SelectStmt" && fields.withClause !== undefined)
      scope = this.#withClause(fields.withClause as Fields, scope);
    for (const [name, value] of Object.entries(fields)) {
      if (name === "location" || (type === "SelectStmt" && name === "withClause")) continue;
      const rule = ownOf(rules, name);
      if (rule === undefined) throw new StatementRefused(`${type} with ${name} is not allowed`);
      if (rule === "nodes") this.node(value, scope);
      else if (typeof rule === "object") this.fields(rule.is, value as Fields, scope);
      else if (rule === "checked") this.#named(type, name, value, { fields, scope });
    }
  }

  /** Checks the CTEs; each sees those before it. Returns the scope of the statement that has them. */
  #withClause(clause: Fields, scope: Scope): Scope {
    if (clause.recursive) throw new StatementRefused("WITH RECURSIVE is not allowed");
    const { ctes: list, location: _, ...others } = clause;
    if (Object.keys(others).length > 0)
      throw new StatementRefused("the statement uses syntax that is not allowed");
    let { ctes } = scope;
    for (const cte of list as readonly { CommonTableExpr: Fields }[]) {
      this.node(cte, { ...scope, ctes });
      ctes = new Set([...ctes, String(cte.CommonTableExpr.ctename)]);
    }
    return { ...scope, ctes };
  }

  #named(
    type: string,
    name: string,
    value: unknown,
    { fields, scope }: { fields: Fields; scope: Scope },
  ): void {
    switch (type) {
      case "RangeVar":
        this.#relation(name, value, String(fields.relname), scope);
        break;
      case "CommonTableExpr":
        checkCommonTable(name, value);
        break;
      case "FuncCall":
        checkFunction(stringsOf(value), fields);
        break;
      case "ColumnRef":
        this.#column(value);
        break;
      case "TypeName":
        checkType(stringsOf(value));
        break;
      case "SQLValueFunction":
        if (!valueFunctions.has(String(value)))
          throw new StatementRefused(`${value} is not allowed`);
        break;
      default:
        checkOperator(stringsOf(value));
    }
  }

  #relation(name: string, value: unknown, relation: string, { ctes }: Scope): void {
    const { relations } = this.#readable;
    if (name === "inh" && value !== true) throw new StatementRefused("ONLY is not allowed");
    if (!ctes.has(relation) && !relations.has(relation))
      throw new StatementRefused(
        `relation "${relation}" does not exist; there are ${[...relations].join(", ")}`,
      );
  }

  /** `alias.name` calls a function when the alias has no such column, so the name must be that of a column. */
  #column(value: unknown): void {
    const list = value as readonly Fields[];
    const [qualifier, name] = stringsOf(list);
    const isStar = list.at(-1)?.A_Star !== undefined;
    if (list.length > 2 || stringsOf(list).length !== list.length - (isStar ? 1 : 0))
      throw new StatementRefused("write columns as name or alias.name");
    if (list.length === 1 || isStar || qualifier === undefined || name === undefined) return;
    const { names, functionColumns } = this.#introduced;
    if (
      !names.has(qualifier) &&
      !functionColumns.has(qualifier) &&
      !this.#readable.relations.has(qualifier)
    )
      throw new StatementRefused(`"${qualifier}" is no relation of the statement`);
    const ofFunction = functionColumns.get(qualifier);
    const isKnown = ofFunction
      ? ofFunction.has(name)
      : this.#readable.columns.has(name) ||
        names.has(name) ||
        functions.has(name) ||
        impliedNames.has(name) ||
        functionColumns.has(name);
    if (!isKnown) throw new StatementRefused(`column "${qualifier}.${name}" does not exist`);
  }
}

/** Only calls: PostgreSQL accepts COALESCE and casts in FROM too, where their value would have a name that `namesIn` does not see. */
const checkFunctionsInFrom = (list: unknown) => {
  for (const each of list as readonly { List?: { items?: readonly Fields[] } }[])
    if (each.List?.items?.[0]?.FuncCall === undefined)
      throw new StatementRefused("FROM may have relations, subqueries and calls of functions only");
};

/** Syntax such as EXTRACT(… FROM …) is a call of a function in pg_catalog; the statement itself may not name a schema. */
const checkFunction = (name: readonly string[], { funcformat }: Fields) => {
  const [schema, own = schema] = name;
  const isSyntax = schema === "pg_catalog" && funcformat === "COERCE_SQL_SYNTAX";
  if (name.length > 2 || (name.length === 2 && !isSyntax))
    throw new StatementRefused("write functions without a schema");
  if (own === undefined || !functions.has(own))
    throw new StatementRefused(`function ${own} is not allowed`);
};

const checkType = (name: readonly string[]) => {
  const [schema, own = schema] = name;
  if (
    name.length > 2 ||
    (name.length === 2 && schema !== "pg_catalog") ||
    own === undefined ||
    !types.has(own)
  )
    throw new StatementRefused(`type ${name.at(-1)} is not allowed`);
};

const ownOf = <Value>(record: Readonly<Record<string, Value>>, key: string): Value | undefined =>
  Object.hasOwn(record, key) ? record[key] : undefined;

const checkCommonTable = (name: string, value: unknown) => {
  if (name === "ctematerialized") {
    if (value === "CTEMaterializeNever")
      throw new StatementRefused("NOT MATERIALIZED is not allowed");
  } else if (!/^[a-z_][a-z0-9_]*$/i.test(String(value)) || /^pg_/i.test(String(value)))
    throw new StatementRefused(`"${value}" is not allowed as the name of a CTE`);
};

const checkOperator = (operator: readonly string[]) => {
  if (operator.length !== 1 || !operators.has(operator[0] ?? ""))
    throw new StatementRefused(`operator ${operator.join(".")} is not allowed`);
};
