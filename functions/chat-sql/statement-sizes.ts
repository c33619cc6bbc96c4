/**
 * Bounds the values that a statement can build. PostgreSQL looks for a timeout, a cancel or a termination between rows only: one call of a
 * text function on values of some megabytes runs for days, and nothing but an immediate shutdown ends it. So the size of every expression
 * is estimated from its literals and columns before the statement is sent. The estimate errs towards too large.
 */

import { functions, types } from "./statement-grammar.ts";

/** A statement that may build too large a value. The message is for the model. */
export class TooLarge extends Error {
  override readonly name = "TooLarge";
}

/** The assumed size of a column's value, in bytes. */
const columnBytes = 1024;
const valueBytesMax = 1024 * 1024;
/** The most that the product of two sizes may be where a function compares each part of one value with each of the other. */
const comparisonsMax = 64 * 1024 * 1024;
/** Aggregates that keep every row's value in memory; the literals in that value may have this size. */
const collectedLiteralBytesMax = 256;
/** Multiplications of a statement: of two long numerics each takes a tenth of a second. */
const multiplicationsMax = 64;
/** The most SELECTs of a statement through which a value may grow. */
const roundsMax = 64;

const words = (text: string): ReadonlySet<string> => new Set(text.trim().split(/\s+/));
const collecting = words("string_agg array_agg json_agg jsonb_agg json_object_agg jsonb_object_agg");
/** Functions that may read a collected value, and return a small one. */
const measuring =
  words(`count length char_length character_length octet_length cardinality array_length array_upper array_lower
  jsonb_array_length json_array_length jsonb_typeof json_typeof num_nulls num_nonnulls`);
/** Functions that return a collected value as it is. */
const passing = words("array_to_string min max any_value first_value last_value lag lead");
const comparing = words("strpos position translate btrim ltrim rtrim split_part string_to_array replace");
const encoding = words(
  `to_json to_jsonb row_to_json jsonb_build_object json_build_object jsonb_build_array jsonb_pretty`,
);
const multiplying = words("power exp ln log sqrt mod div * / % ^");
const comparisons = words("= <> < > <= >= ~~ !~~ ~~* !~~* ~ ~* !~ !~* ? ?| ?& @> <@ && << >> <<= >>= ^@");
const pairwise = words("~~ !~~ ~~* !~~* @> <@ &&");

/** Throws `TooLarge` when a statement may build a value that one call works on for long. `columns` are those of the relations. */
export const checkSizes = (statement: unknown, columns: ReadonlySet<string>): void => {
  const literals = new Sizes(definitionsOf(statement), columns, 0);
  literals.settle();
  const whole = new Sizes(definitionsOf(statement), columns, columnBytes, literals);
  whole.settle();
  whole.of(statement);
  if (whole.multiplications > multiplicationsMax)
    throw new TooLarge(`use at most ${multiplicationsMax} multiplications`);
};

type Fields = Readonly<Record<string, unknown>>;

/** The expressions that a name may stand for. */
interface Definitions {
  named: ReadonlyMap<string, readonly unknown[]>;
  /** Expressions whose name follows from their function or type. */
  unnamed: readonly unknown[];
  /** The number of SELECTs: a value passes through each of them once at most. */
  selects: number;
  /** Names that an alias gives to columns by position. */
  positional: ReadonlySet<string>;
}

const definitionsOf = (statement: unknown): Definitions => {
  const named = new Map<string, unknown[]>();
  const unnamed: unknown[] = [];
  const positional = new Set<string>();
  let selects = 0;
  const define = (name: string, value: unknown): void => {
    named.set(name, [...(named.get(name) ?? []), value]);
  };
  const walk = (value: unknown): void => {
    if (typeof value !== "object" || value === null) return;
    for (const [key, field] of Object.entries(value)) {
      const fields = field as Fields;
      if (key === "targetList") selects += 1;
      if (key === "ResTarget" && typeof fields.name === "string") define(fields.name, fields.val);
      else if (key === "ResTarget" && !isColumn(fields.val)) unnamed.push(fields.val);
      else if (key === "valuesLists") unnamed.push(field);
      else if (key === "RangeFunction") {
        const { aliasname, colnames } = (fields.alias ?? {}) as Fields;
        unnamed.push(fields.functions);
        for (const name of [aliasname, ...namesOf(colnames), "key", "value"])
          if (typeof name === "string") define(name, fields.functions);
      } else if (key === "RangeSubselect" || key === "RangeVar") {
        const { aliasname, colnames } = (fields.alias ?? {}) as Fields;
        for (const name of namesOf(colnames)) positional.add(name);
        // The whole row: of a CTE under its own name, else of a relation.
        if (key === "RangeVar") define(String(aliasname ?? fields.relname), rowOf(String(fields.relname), aliasname));
        if (typeof aliasname === "string" && key === "RangeSubselect")
          define(aliasname, { RowExpr: { args: [fields.subquery] } });
      } else if (key === "CommonTableExpr") {
        for (const name of namesOf(fields.aliascolnames)) positional.add(name);
        define(String(fields.ctename), { RowExpr: { args: [fields.ctequery] } });
      } else if (key === "JoinExpr")
        for (const name of namesOf((fields.alias as Fields)?.colnames)) positional.add(name);
      walk(field);
    }
  };
  walk(statement);
  return { named, unnamed, selects, positional };
};

const rowOf = (relation: string, alias: unknown): unknown => ({
  RowExpr: {
    args: [{ row: null }, ...(alias === undefined ? [] : [{ cte: { name: relation } }])],
  },
});

const namesOf = (list: unknown): string[] =>
  Array.isArray(list) ? list.flatMap((each) => (typeof each?.String?.sval === "string" ? [each.String.sval] : [])) : [];

/** The sizes of expressions, in bytes; infinite for what an aggregate collected of any number of rows. */
class Sizes {
  multiplications = 0;
  readonly #definitions: Definitions;
  readonly #columns: ReadonlySet<string>;
  readonly #column: number;
  readonly #literals: Sizes | null;
  readonly #named = new Map<string, number>();
  #any = 0;
  #unnamed = 0;

  constructor(definitions: Definitions, columns: ReadonlySet<string>, column: number, literals: Sizes | null = null) {
    this.#definitions = definitions;
    this.#columns = columns;
    this.#column = column;
    this.#literals = literals;
  }

  /** Computes the sizes of all names: after as many rounds as there are SELECTs, no value can have grown further. */
  settle(): void {
    for (let round = 0; ; round++) {
      let changed = false;
      const { named, unnamed, selects } = this.#definitions;
      for (const [name, values] of named) {
        const size = Math.max(...values.map((value) => this.of(value)));
        changed ||= size > (this.#named.get(name) ?? 0);
        this.#named.set(name, Math.max(size, this.#named.get(name) ?? 0));
        this.#any = Math.max(this.#any, size);
      }
      const size = Math.max(0, ...unnamed.map((value) => this.of(value)));
      changed ||= size > this.#unnamed;
      this.#unnamed = Math.max(this.#unnamed, size);
      this.#any = Math.max(this.#any, size);
      this.multiplications = 0;
      if (!changed || round > selects) return;
      if (round === roundsMax) throw new TooLarge("use fewer subqueries, or other names in them");
    }
  }

  /** Returns the size of a node, or of a list of them. Throws `TooLarge` above the limit. */
  of(value: unknown): number {
    if (typeof value !== "object" || value === null) return 0;
    if (Array.isArray(value)) return value.reduce((sum: number, each) => sum + this.of(each), 0);
    let sum = 0;
    for (const [type, field] of Object.entries(value)) sum += this.#node(type, field as Fields);
    if (sum > valueBytesMax && Number.isFinite(sum)) throw new TooLarge("the statement may build too long a value");
    return sum;
  }

  #node(type: string, fields: Fields): number {
    switch (type) {
      case "row":
        return 8 * this.#column;
      case "cte":
        return this.#named.get(String(fields.name)) ?? 0;
      case "A_Const":
        return typeof (fields.sval as Fields)?.sval === "string" ? bytesOf(String((fields.sval as Fields).sval)) : 24;
      case "ColumnRef":
        return this.#columnRef(namesOf(fields.fields).at(-1));
      case "FuncCall":
        return this.#call(namesOf(fields.funcname).at(-1) ?? "", fields);
      case "A_Expr":
        return this.#operator(fields);
      case "BoolExpr":
      case "NullTest":
      case "BooleanTest":
        this.of(Object.values(fields).filter((each) => typeof each === "object"));
        return 1;
      case "SubLink": {
        const size = this.of(fields.subselect);
        this.of(fields.testexpr);
        if (fields.subLinkType === "ARRAY_SUBLINK") return this.#collected(fields.subselect);
        return fields.subLinkType === "EXPR_SUBLINK" ? size : 1;
      }
      case "RowExpr":
      case "A_ArrayExpr":
        return 2 * this.of(fields.args ?? fields.elements ?? []) + 2;
      case "TypeCast":
        return this.of(fields.arg) + lengthOf(fields);
      case "SelectStmt": {
        const { targetList, valuesLists, larg, rarg, ...others } = fields;
        this.of(Object.values(others).filter((each) => typeof each === "object"));
        const branches = [larg, rarg].map((each) => (each === undefined ? 0 : this.#node(type, each as Fields)));
        return this.of(targetList) + this.of(valuesLists) + Math.max(...branches);
      }
      default:
        return this.of(Object.values(fields).filter((each) => typeof each === "object"));
    }
  }

  #columnRef(name: string | undefined): number {
    if (name === undefined) return 0;
    const { named, positional } = this.#definitions;
    if (positional.has(name)) return Math.max(this.#any, this.#column);
    const known = named.has(name) || this.#columns.has(name);
    const size = known && !isImplied(name) ? 0 : this.#unnamed;
    return Math.max(size, this.#named.get(name) ?? 0, this.#columns.has(name) ? this.#column : 0);
  }

  #call(name: string, { args: given, ...others }: Fields): number {
    const args = (given ?? []) as readonly unknown[];
    this.of(Object.values(others).filter((each) => typeof each === "object"));
    if (collecting.has(name)) return this.#collected(args);
    const sizes = args.map((each) => this.of(each));
    const sum = sizes.reduce((total, each) => total + each, 0);
    if (measuring.has(name)) return 24;
    if (sum === Number.POSITIVE_INFINITY && !passing.has(name))
      throw new TooLarge(`return what an aggregate collected as it is: ${name} may not read it`);
    if (multiplying.has(name)) this.multiplications += 1;
    const [first = 0, second = 0, third = 0] = sizes;
    if (comparing.has(name)) compare(first, Math.max(second, name === "replace" ? 0 : third));
    if (name === "replace") return first * Math.max(1, third / Math.max(1, isConstant(args[1]) ? second : 1));
    if (name === "regexp_replace") return (first + 1) * (third + 1);
    if (name === "array_to_string") return first * (1 + second);
    if (name === "concat_ws") return sum + first * args.length;
    if (name === "to_char") return 8 * sum;
    return encoding.has(name) ? 2 * sum : sum;
  }

  #operator({ name, lexpr, rexpr, kind }: Fields): number {
    const operator = namesOf(name).at(-1) ?? "";
    const [left, right] = [this.of(lexpr), this.of(rexpr)];
    if (left + right === Number.POSITIVE_INFINITY && !(kind === "AEXPR_OP_ANY" && operator === "="))
      throw new TooLarge(`return what an aggregate collected as it is: ${operator} may not read it`);
    if (multiplying.has(operator)) this.multiplications += 1;
    if (pairwise.has(operator)) compare(left, right);
    return comparisons.has(operator) && kind !== "AEXPR_NULLIF" ? 1 : left + right;
  }

  /** Returns the size of what an aggregate collects, after checking that a row adds little to it. */
  #collected(values: unknown): number {
    if (this.of(values) === Number.POSITIVE_INFINITY)
      throw new TooLarge("an aggregate may not collect what another collected");
    if ((this.#literals?.of(values) ?? 0) > collectedLiteralBytesMax)
      throw new TooLarge(`an aggregate may collect at most ${collectedLiteralBytesMax} bytes of literals in each row`);
    return Number.POSITIVE_INFINITY;
  }
}

const compare = (size: number, other: number): void => {
  if (size * other > comparisonsMax) throw new TooLarge("the statement may compare too long values");
};

const isColumn = (node: unknown): boolean => (node as Fields | undefined)?.ColumnRef !== undefined;
const implied = words("case coalesce nullif greatest least array row exists bool ?column?");
/** Whether an expression without a name may get this one. */
const isImplied = (name: string): boolean => implied.has(name) || functions.has(name) || types.has(name);

const isConstant = (node: unknown): boolean => (node as Fields | undefined)?.A_Const !== undefined;

/** Returns the bytes that a cast adds: `char(n)` pads to its length, and a number with an exponent becomes its digits. */
const lengthOf = ({ arg, typeName }: Fields): number => {
  const { names, typmods } = typeName as Fields;
  const type = namesOf(names).at(-1) ?? "";
  if (type === "bpchar" && Array.isArray(typmods)) {
    const length = ((typmods[0] as Fields)?.A_Const as Fields)?.ival as Fields | undefined;
    return 4 * Number(length?.ival ?? valueBytesMax);
  }
  const text = ((arg as Fields | undefined)?.A_Const as Fields)?.sval as Fields | undefined;
  const digits = /numeric|json/.test(type) ? (String(text?.sval ?? "").match(/e\+?\d{3,}/gi)?.length ?? 0) : 0;
  return digits * 150_000;
};

const bytesOf = (text: string): number => new TextEncoder().encode(text).length;
