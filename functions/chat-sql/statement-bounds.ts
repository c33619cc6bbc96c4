/**
 * Limits the time and the memory that a statement needs to compute one row. PostgreSQL checks for a timeout, a cancel or a termination only
 * between rows, and frees memory after each row. So values must be short and calls few, by these rules:
 *
 * - Functions and operators return a value of fixed size, or one no longer than their arguments (statement-grammar.ts).
 * - `||`, `concat` and JSON builders join few values, in the outermost SELECT only, where nothing else reads what they return.
 * - Multiplications and divisions are few and in few SELECTs, and numbers in literals are short: so are all numerics.
 * - Patterns, delimiters and formats are short literals; regular expressions have no counted repetition and no back reference.
 * - Rows, and arrays of what is no literal, are no values.
 * - The planner replaces a name by its expression wherever it stands, and moves conditions into subqueries, so names of expressions in
 *   subqueries are used few times, under whatever other names.
 *
 * The plan (check-plan.ts) and the functions of drizzle/sql/chat-functions.sql bound the memory of a whole statement.
 */

import {
  joining,
  jsonBuilding,
  likes,
  literalsFrom,
  multiplying,
  pairwise,
  regexes,
  regexFunctions,
} from "./statement-grammar.ts";
import {
  type DerivedNames,
  derivedNamesIn,
  type Fields,
  rowNamesIn,
  stringsOf,
} from "./statement-names.ts";

/** Reports that a statement breaks a rule. The message is for the model: it has only the rule and the statement's own words. */
export class StatementRefused extends Error {
  override readonly name = "StatementRefused";
}

/** The most of each that a statement may have. */
const statementLimits = {
  relations: 8,
  SELECTs: 24,
  "columns in a SELECT": 100,
  "functions, casts and computing operators": 120,
  "operands of ||, concat and JSON builders": 24,
  "multiplications and divisions": 16,
  "SELECTs that multiply or divide": 3,
  "characters in patterns and delimiters": 384,
  "sorted aggregates (DISTINCT, ORDER BY, WITHIN GROUP), each once for every grouping set": 8,
  "uses of names that subqueries give to expressions; write the subquery as a CTE AS MATERIALIZED": 10,
  "uses in subqueries of columns that core computes": 32,
} as const;

type Limited = keyof typeof statementLimits;

/** The context of a node. */
interface Place {
  /** The SELECT that the node is in; the branches of a set operation are one. */
  select: Fields;
  /** Types of the nodes around it in that SELECT, the nearest first; for an operator, its name. */
  around: readonly string[];
}

/** Throws `StatementRefused` when a statement breaks one of these rules. `columns` are those of the relations, some of them `computed`. */
export const checkBounds = (
  statement: Fields,
  { columns, computed }: { columns: ReadonlySet<string>; computed: ReadonlySet<string> },
): void => {
  const rows = rowNamesIn(statement);
  for (const name of rows.intersection(columns))
    throw new StatementRefused(`"${name}" is a column: give the relation another name`);
  const [outermost] = Object.values(statement) as [Fields];
  new BoundsCheck({
    outermost,
    rows,
    derived: derivedNamesIn(statement, { columns, computed }),
    columns,
    computed,
  }).node(statement, {
    select: outermost,
    around: [],
  });
};

interface Names {
  outermost: Fields;
  /** Names that could mean whole rows. */
  rows: ReadonlySet<string>;
  /** Names of expressions in subqueries. */
  derived: DerivedNames;
  columns: ReadonlySet<string>;
  computed: ReadonlySet<string>;
}

class BoundsCheck {
  readonly #names: Names;
  readonly #used = new Map<Limited, number>();
  readonly #groupingSets = new Map<Fields, number>();
  readonly #multiplying = new Set<Fields>();

  constructor(names: Names) {
    this.#names = names;
  }

  /** Checks nodes in their wrapper, or a list of them. */
  node(value: unknown, place: Place): void {
    if (typeof value !== "object" || value === null) return;
    if (Array.isArray(value)) for (const each of value) this.node(each, place);
    else
      for (const [type, fields] of Object.entries(value))
        this.#fields(type, fields as Fields, place);
  }

  #fields(type: string, fields: Fields, place: Place): void {
    if (typeof fields !== "object" || fields === null) return;
    const { select, around } = place;
    if (type === "SelectStmt")
      this.#select(fields, fields === this.#names.outermost ? select : fields);
    // The branches of a set operation, the only ones without a wrapper.
    else if ((type === "larg" || type === "rarg") && fields.limitOption !== undefined)
      this.#select(fields, select);
    else if (!/^[A-Z]/.test(type) || type === "List")
      this.node(fields, clauses.has(type) ? { select, around: [type, ...around] } : place);
    else {
      this.#rule(type, fields, place);
      const named = type === "FuncCall" ? fields.funcname : fields.name;
      const name = type === "FuncCall" || type === "A_Expr" ? stringsOf(named) : [];
      this.node(fields, { select, around: [name.at(-1) ?? type, ...around] });
    }
  }

  #select(fields: Fields, select: Fields): void {
    this.#use("SELECTs");
    if (list(fields.targetList).length > statementLimits["columns in a SELECT"])
      throw exceeds("columns in a SELECT");
    this.#groupingSets.set(
      select,
      Math.max(groupingSetsOf(fields.groupClause), this.#groupingSets.get(select) ?? 1),
    );
    this.node(fields, { select, around: [] });
  }

  #rule(type: string, fields: Fields, place: Place): void {
    if (type === "FuncCall" || type === "TypeCast")
      this.#use("functions, casts and computing operators");
    if (type === "RangeVar") this.#use("relations");
    else if (type === "FuncCall") this.#call(fields, place);
    else if (type === "A_Expr") this.#operator(fields, place);
    else if (type === "A_Const") checkLiteral(fields);
    else if (type === "ColumnRef") this.#column(fields, place);
    else if (type === "TypeCast") checkCast(fields);
    else if (type === "RowExpr" && !rowParents.has(place.around[0] ?? ""))
      throw new StatementRefused("compare rows only: a row is no value");
    else if (type === "A_ArrayExpr" && !list(fields.elements).every(isLiteral))
      throw new StatementRefused("write literals in ARRAY[…], or use array_agg");
    else if (type === "SubLink") {
      if (fields.subLinkType === "ARRAY_SUBLINK")
        throw new StatementRefused("use array_agg instead of ARRAY(SELECT …)");
      const operator = stringsOf(fields.operName).at(-1);
      if (operator !== undefined && !comparisons.has(operator))
        throw new StatementRefused(`${operator} of a subquery is not allowed: join it`);
    }
  }

  #call(fields: Fields, place: Place): void {
    const name = String(stringsOf(fields.funcname).at(-1));
    const args = list(fields.args);
    const from = Object.hasOwn(literalsFrom, name) ? (literalsFrom[name] ?? 0) : args.length;
    for (const arg of args.slice(from))
      this.#pattern(arg, name, regexFunctions.has(name) && arg === args[1]);
    if (name === "regexp_replace") checkReplacement(args);
    if (joining.has(name)) this.#join(name, place, args.length);
    if (multiplying.has(name)) this.#multiply(place);
    if (fields.agg_order ?? fields.agg_distinct ?? fields.agg_within_group)
      this.#use(
        "sorted aggregates (DISTINCT, ORDER BY, WITHIN GROUP), each once for every grouping set",
        this.#groupingSets.get(place.select),
      );
  }

  #operator({ name, lexpr, rexpr }: Fields, place: Place): void {
    const operator = String(stringsOf(name).at(-1));
    if (likes.has(operator) || regexes.has(operator))
      this.#pattern(rexpr, operator, regexes.has(operator));
    else if (pairwise.has(operator) && !isLiteral(lexpr) && !isLiteral(rexpr))
      throw new StatementRefused(`write a literal on one side of ${operator}`);
    if (!comparing.has(operator)) this.#use("functions, casts and computing operators");
    if (joining.has(operator)) this.#join(operator, place, 1);
    if (multiplying.has(operator)) this.#multiply(place);
  }

  #multiply({ select }: Place): void {
    this.#use("multiplications and divisions");
    if (!this.#multiplying.has(select)) this.#use("SELECTs that multiply or divide");
    this.#multiplying.add(select);
  }

  /** Checks a pattern, a delimiter, a format, or an array of patterns. */
  #pattern(value: unknown, of: string, isRegex: boolean): void {
    if (!isLiteral(value))
      throw new StatementRefused(`write a literal as the pattern, delimiter or format of ${of}`);
    for (const text of textsOf(value)) {
      this.#use("characters in patterns and delimiters", text.length);
      if (isRegex && /[{]|\\\d/.test(text))
        throw new StatementRefused(
          "a regular expression may not have { or a back reference: write repetitions out",
        );
    }
  }

  #join(name: string, { select, around }: Place, operands: number): void {
    const allowed = jsonBuilding.has(name) ? jsonBuilding : joinReaders;
    const reader = around.find((each) => each !== "ResTarget" && !allowed.has(each));
    if (reader !== undefined)
      throw new StatementRefused(`${reader} may not read what ${name} returns`);
    if (select !== this.#names.outermost)
      throw new StatementRefused(
        "use ||, concat, array_to_string and JSON builders in the outermost SELECT only",
      );
    this.#use("operands of ||, concat and JSON builders", operands);
  }

  #column({ fields }: Fields, { select, around }: Place): void {
    const { outermost, rows, derived, columns, computed } = this.#names;
    const [name = "", ...more] = stringsOf(fields);
    const isStar = list(fields).some((each) => (each as Fields).A_Star !== undefined);
    if (isStar && around[0] !== "ResTarget")
      throw new StatementRefused("write count(*), and name columns elsewhere");
    if (!isStar && more.length === 0 && rows.has(name))
      throw new StatementRefused(`"${name}" is a relation: write its columns as ${name}.column`);
    const last = more.at(-1) ?? name;
    // A query that reads the subquery repeats them.
    if (select !== outermost && computed.has(last))
      this.#use("uses in subqueries of columns that core computes");
    const { merged, separate, others } = derived;
    const isImplied = ![columns, others, separate].some((names) => names.has(last));
    // Nothing replaces what a separate subquery returns to the outermost SELECT, apart from its conditions.
    const isKept = select === outermost && !around.some((each) => conditions.has(each));
    const isReplaced = merged.has(last) || isImplied || (!isKept && (isStar || separate.has(last)));
    if ((merged.size > 0 && (isStar || isReplaced)) || (separate.size > 0 && isReplaced))
      this.#use(
        "uses of names that subqueries give to expressions; write the subquery as a CTE AS MATERIALIZED",
      );
  }

  #use(what: Limited, count = 1): void {
    const used = (this.#used.get(what) ?? 0) + count;
    if (used > statementLimits[what]) throw exceeds(what);
    this.#used.set(what, used);
  }
}

const exceeds = (what: Limited): StatementRefused =>
  new StatementRefused(`use at most ${statementLimits[what]} ${what}`);

/** Clauses whose expressions are conditions. */
const conditions = new Set(["whereClause", "havingClause", "quals"]);
const clauses = conditions.union(new Set(["groupClause"]));
const comparisons = new Set(["=", "<>", "<", ">", "<=", ">="]);
const rowParents = new Set([...comparisons, "SubLink", "groupClause", "GroupingSet"]);
const comparing = comparisons.union(likes).union(regexes).union(pairwise);
/** The functions and operators that may read a joined text. */
const joinReaders = new Set([
  "||",
  "concat",
  "concat_ws",
  "array_to_string",
  "string_agg",
  "array_agg",
  "count",
  "min",
  "max",
  "coalesce",
  "TypeCast",
  "CaseExpr",
  "CaseWhen",
  "CoalesceExpr",
  "SortBy",
  "groupClause",
  "GroupingSet",
]);

/** Returns how many times an aggregate of a SELECT keeps its rows: once for each grouping set. */
const groupingSetsOf = (clause: unknown) => {
  const text = JSON.stringify(clause ?? "");
  const sets = list(clause).filter((each) => (each as Fields).GroupingSet !== undefined).length;
  if (sets > 1 || text.includes("GROUPING_SET_CUBE"))
    throw new StatementRefused("write one ROLLUP or GROUPING SETS, and no CUBE");
  return sets === 0 ? 1 : text.split('"ColumnRef"').length;
};

const digitsMax = 40;

/** Rejects literals that become long numbers: `1e131071` has eight characters, and 64 KiB as a numeric. */
const checkLiteral = ({ fval, sval }: Fields) => {
  const text = String(
    (fval as Fields | undefined)?.fval ?? (sval as Fields | undefined)?.sval ?? "",
  ).trim();
  const isNumber = /^[-+]?(0[box][\da-f_]+|[\d._]+(e[-+]?[\d_]+)?)$/i.test(text);
  const isJson = /^[[{]/.test(text);
  if (
    (isNumber && text.length > digitsMax) ||
    ((isNumber || isJson) && /[\d.]e[+-]?[\d_]{3}/i.test(text))
  )
    throw new StatementRefused(
      `a number may have at most ${digitsMax} digits and an exponent of two`,
    );
};

const checkCast = ({ arg, typeName }: Fields) => {
  const { names } = typeName as Fields;
  if (stringsOf(names).at(-1) === "jsonb" && (arg as Fields).A_Const === undefined)
    throw new StatementRefused("only a literal may be cast to jsonb");
};

/** Rejects a replacement that could multiply the text that it replaces. */
const checkReplacement = ([, , replacement, flags, ...more]: readonly unknown[]) => {
  const [text = ""] = textsOf(replacement);
  const [flag = ""] = textsOf(flags);
  if (more.length > 0 || (flags !== undefined && textsOf(flags).length === 0))
    throw new StatementRefused("write regexp_replace(text, pattern, replacement, flags)");
  if (text.includes("\\") || (flag.includes("g") && text !== ""))
    throw new StatementRefused("regexp_replace may replace one match by a literal, or all by ''");
};

/** Reports whether a node is a literal, a cast of one, or an array of them. */
const isLiteral = (node: unknown): boolean => {
  const { A_Const, TypeCast, A_ArrayExpr } = (node ?? {}) as {
    A_Const?: Fields;
    TypeCast?: Fields;
    A_ArrayExpr?: Fields;
  };
  if (TypeCast !== undefined) return isLiteral(TypeCast.arg);
  return (
    A_Const !== undefined ||
    (A_ArrayExpr !== undefined && list(A_ArrayExpr.elements).every(isLiteral))
  );
};

/** Returns the texts in a literal. */
const textsOf = (literal: unknown): string[] => {
  const texts: string[] = [];
  JSON.stringify(literal ?? null, (key, value) => {
    if (key === "sval" && typeof value === "string") texts.push(value);
    return value;
  });
  return texts;
};

const list = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);
