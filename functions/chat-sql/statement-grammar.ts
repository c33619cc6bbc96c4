/**
 * How a field of a syntax node is checked: `nodes` is a node or a list of them, each wrapped in its type; `plain` is a number, a boolean
 * or an enumeration that cannot name anything; `names` are identifiers that the statement introduces; `{ is }` is a node without its
 * wrapper. `checked` fields name something that exists: check-statement.ts decides on them.
 */
type FieldRule = "nodes" | "plain" | "names" | "checked" | { is: string };

/**
 * The syntax nodes of PostgreSQL's parser that a statement may have, with every allowed field. Every other node and field is rejected: INTO,
 * locking clauses, data-modifying CTEs, parameters, XML, samples, casts by `using`.
 */
export const grammar: Readonly<Record<string, Readonly<Record<string, FieldRule>>>> = {
  SelectStmt: {
    distinctClause: "nodes",
    targetList: "nodes",
    fromClause: "nodes",
    whereClause: "nodes",
    groupClause: "nodes",
    groupDistinct: "plain",
    havingClause: "nodes",
    windowClause: "nodes",
    valuesLists: "nodes",
    sortClause: "nodes",
    limitOffset: "nodes",
    limitCount: "nodes",
    limitOption: "plain",
    withClause: { is: "WithClause" },
    op: "plain",
    all: "plain",
    larg: { is: "SelectStmt" },
    rarg: { is: "SelectStmt" },
  },
  WithClause: { ctes: "nodes" },
  CommonTableExpr: {
    ctename: "checked",
    aliascolnames: "names",
    ctematerialized: "checked",
    ctequery: "nodes",
  },
  ResTarget: { name: "names", val: "nodes" },
  RangeVar: { relname: "checked", inh: "checked", relpersistence: "plain", alias: { is: "Alias" } },
  RangeSubselect: { lateral: "plain", subquery: "nodes", alias: { is: "Alias" } },
  RangeFunction: {
    lateral: "plain",
    ordinality: "plain",
    is_rowsfrom: "plain",
    functions: "nodes",
    alias: { is: "Alias" },
  },
  JoinExpr: {
    jointype: "plain",
    isNatural: "plain",
    larg: "nodes",
    rarg: "nodes",
    usingClause: "names",
    quals: "nodes",
    alias: { is: "Alias" },
  },
  Alias: { aliasname: "names", colnames: "names" },
  ColumnRef: { fields: "checked" },
  A_Const: { ival: "plain", fval: "plain", boolval: "plain", sval: "plain", isnull: "plain" },
  A_Expr: {
    kind: "plain",
    name: "checked",
    lexpr: "nodes",
    rexpr: "nodes",
    rexpr_list_start: "plain",
    rexpr_list_end: "plain",
  },
  BoolExpr: { boolop: "plain", args: "nodes" },
  NullTest: { arg: "nodes", nulltesttype: "plain" },
  BooleanTest: { arg: "nodes", booltesttype: "plain" },
  CaseExpr: { arg: "nodes", args: "nodes", defresult: "nodes" },
  CaseWhen: { expr: "nodes", result: "nodes" },
  CoalesceExpr: { args: "nodes" },
  MinMaxExpr: { op: "plain", args: "nodes" },
  RowExpr: { args: "nodes", row_format: "plain" },
  A_ArrayExpr: { elements: "nodes", list_start: "plain", list_end: "plain" },
  // No field selection: on a value it calls the function of that name.
  A_Indirection: { arg: "nodes", indirection: "nodes" },
  A_Indices: { is_slice: "plain", lidx: "nodes", uidx: "nodes" },
  SubLink: { subLinkType: "plain", testexpr: "nodes", operName: "checked", subselect: "nodes" },
  FuncCall: {
    funcname: "checked",
    args: "nodes",
    agg_order: "nodes",
    agg_filter: "nodes",
    over: { is: "WindowDef" },
    agg_within_group: "plain",
    agg_star: "plain",
    agg_distinct: "plain",
    funcformat: "plain",
  },
  NamedArgExpr: { arg: "nodes", name: "names", argnumber: "plain" },
  WindowDef: {
    name: "names",
    refname: "names",
    partitionClause: "nodes",
    orderClause: "nodes",
    frameOptions: "plain",
    startOffset: "nodes",
    endOffset: "nodes",
  },
  SortBy: { node: "nodes", sortby_dir: "plain", sortby_nulls: "plain" },
  GroupingSet: { kind: "plain", content: "nodes" },
  GroupingFunc: { args: "nodes" },
  TypeCast: { arg: "nodes", typeName: { is: "TypeName" } },
  TypeName: { names: "checked", typmods: "nodes", typemod: "plain", arrayBounds: "plain" },
  SQLValueFunction: { op: "checked", typmod: "plain" },
  List: { items: "nodes" },
};

const words = (text: string): ReadonlySet<string> => new Set(text.trim().split(/\s+/));

/**
 * The functions that a statement may call, by their name in pg_catalog. None is volatile, reads a catalog or runs a query. Each returns a
 * value of fixed size or one no longer than its arguments, in time proportional to them; statement-bounds.ts limits the others.
 * `string_agg`, `array_agg`, `jsonb_each` and `jsonb_array_elements` are those of drizzle/sql/chat-functions.sql, which keep little.
 */
export const functions = words(`
  count sum avg min max string_agg array_agg bool_and bool_or every mode percentile_cont percentile_disc any_value
  stddev stddev_pop stddev_samp variance var_pop var_samp
  row_number rank dense_rank percent_rank cume_dist ntile lag lead first_value last_value nth_value
  length char_length character_length octet_length lower upper left right substr substring split_part btrim ltrim rtrim trim
  concat concat_ws starts_with regexp_replace regexp_like regexp_substr regexp_count array_to_string to_char to_date to_timestamp
  abs ceil ceiling floor round trunc sign mod div width_bucket
  now transaction_timestamp statement_timestamp date_trunc date_part extract age make_interval make_date make_timestamptz date_bin
  justify_hours justify_days justify_interval timezone date isfinite
  jsonb_build_object jsonb_build_array jsonb_array_length jsonb_typeof jsonb_extract_path jsonb_extract_path_text jsonb_object_keys
  jsonb_array_elements jsonb_array_elements_text jsonb_each jsonb_each_text
  cardinality array_length array_position array_remove array_upper array_lower unnest generate_series
  num_nulls num_nonnulls host family masklen network`);

/** The operators that a statement may use, as the parser names them. */
export const operators = words(`
  + - * / % = <> < > <= >= || ~~ !~~ ~~* !~~* ~ ~* !~ !~* -> ->> #> #>> ? ?| ?& @> <@ && << >> <<= >>= ^@
  BETWEEN`).union(new Set(["NOT BETWEEN", "BETWEEN SYMMETRIC", "NOT BETWEEN SYMMETRIC"]));

/** The types that a statement may cast to, as the parser names them. `bpchar` is not among them: `char(n)` pads to any length. */
export const types = words(`
  bool int2 int4 int8 float4 float8 numeric text varchar date time timestamp timestamptz interval jsonb uuid inet cidr`);

/** The functions without parentheses that a statement may use. */
export const valueFunctions = words(`
  SVFOP_CURRENT_DATE SVFOP_CURRENT_TIME SVFOP_CURRENT_TIME_N SVFOP_CURRENT_TIMESTAMP SVFOP_CURRENT_TIMESTAMP_N SVFOP_LOCALTIME
  SVFOP_LOCALTIME_N SVFOP_LOCALTIMESTAMP SVFOP_LOCALTIMESTAMP_N`);

/** The arguments from this position on must be literals: a delimiter, a set of characters, a pattern, a format. */
export const literalsFrom: Readonly<Record<string, number>> = {
  split_part: 1,
  substring: 1,
  btrim: 1,
  ltrim: 1,
  rtrim: 1,
  trim: 1,
  regexp_replace: 1,
  regexp_like: 1,
  regexp_substr: 1,
  regexp_count: 1,
  array_to_string: 1,
  to_char: 1,
  to_date: 1,
  to_timestamp: 1,
};

/** Functions whose second argument is a regular expression when it is a text. */
export const regexFunctions = words(
  "substring regexp_replace regexp_like regexp_substr regexp_count",
);

/** Functions and operators that return a value as long as all of their arguments together. */
export const joining = words(
  "|| concat concat_ws array_to_string jsonb_build_object jsonb_build_array",
);
export const jsonBuilding = words("jsonb_build_object jsonb_build_array");

/** Functions and operators that may multiply or divide numerics, in time proportional to the product of their lengths. */
export const multiplying = words(
  "* / % mod div width_bucket stddev stddev_pop stddev_samp variance var_pop var_samp",
);

/** Operators whose right side is a pattern: of LIKE, and a regular expression. */
export const likes = words("~~ !~~ ~~* !~~*");
export const regexes = words("~ ~* !~ !~*");

/** Operators that compare each element of one side with each of the other. */
export const pairwise = words("@> <@ && ?| ?&");
