/**
 * How a field of a syntax node is checked: `nodes` is a node or a list of them, each wrapped in its type; `plain` is a number, a boolean
 * or an enumeration that cannot name anything; `names` are identifiers that the statement introduces; `{ is }` is a node without its
 * wrapper. `checked` fields name something that exists: check-statement.ts decides on them.
 */
export type FieldRule = "nodes" | "plain" | "names" | "checked" | { is: string };

/**
 * The syntax nodes of PostgreSQL's parser that a statement may hold, with every field that they may have. Any other node and any other
 * field is refused: INTO, locking clauses, data-modifying CTEs, parameters, XML, samples, casts by `using`.
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
  CommonTableExpr: { ctename: "checked", aliascolnames: "names", ctematerialized: "plain", ctequery: "nodes" },
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
 * The functions that a statement may call, by their name in pg_catalog: none is volatile, reads a catalog, runs a query or makes a long
 * text of a short one by itself.
 */
export const functions = words(`
  count sum avg min max array_agg string_agg bool_and bool_or every json_agg jsonb_agg json_object_agg jsonb_object_agg mode
  percentile_cont percentile_disc stddev stddev_pop stddev_samp variance var_pop var_samp corr any_value
  row_number rank dense_rank percent_rank cume_dist ntile lag lead first_value last_value nth_value
  length char_length character_length octet_length lower upper initcap left right substr substring split_part strpos position replace
  btrim ltrim rtrim trim concat concat_ws reverse starts_with regexp_replace regexp_match regexp_matches regexp_count regexp_like
  regexp_substr regexp_split_to_array string_to_array array_to_string overlay translate similar_to_escape to_char to_number to_date
  to_timestamp
  abs ceil ceiling floor round trunc sqrt power ln log exp mod sign div width_bucket
  now transaction_timestamp statement_timestamp date_trunc date_part extract age make_interval make_date make_timestamptz date_bin
  justify_hours justify_days justify_interval timezone date isfinite
  jsonb_build_object json_build_object jsonb_build_array jsonb_array_length json_array_length jsonb_typeof json_typeof
  jsonb_extract_path jsonb_extract_path_text json_extract_path json_extract_path_text jsonb_object_keys json_object_keys
  jsonb_array_elements jsonb_array_elements_text json_array_elements json_array_elements_text jsonb_each jsonb_each_text json_each
  json_each_text to_json to_jsonb row_to_json jsonb_pretty jsonb_strip_nulls
  cardinality array_length array_position array_remove array_append array_cat array_upper array_lower unnest generate_series
  num_nulls num_nonnulls host family masklen network`);

/** The operators that a statement may use, as the parser names them. */
export const operators = words(`
  + - * / % ^ = <> < > <= >= || ~~ !~~ ~~* !~~* ~ ~* !~ !~* -> ->> #> #>> ? ?| ?& @> <@ && & | # << >> <<= >>= ^@ @
  BETWEEN`).union(new Set(["NOT BETWEEN", "BETWEEN SYMMETRIC", "NOT BETWEEN SYMMETRIC"]));

/** The types that a statement may cast to, as the parser names them. */
export const types = words(`
  bool int2 int4 int8 float4 float8 numeric text varchar bpchar date time timestamp timestamptz interval json jsonb uuid inet cidr`);

/** The functions without parentheses that a statement may use. */
export const valueFunctions = words(`
  SVFOP_CURRENT_DATE SVFOP_CURRENT_TIME SVFOP_CURRENT_TIME_N SVFOP_CURRENT_TIMESTAMP SVFOP_CURRENT_TIMESTAMP_N SVFOP_LOCALTIME
  SVFOP_LOCALTIME_N SVFOP_LOCALTIMESTAMP SVFOP_LOCALTIMESTAMP_N`);
