/** The fields of a node of the syntax tree. */
export type Fields = Readonly<Record<string, unknown>>;

/** Returns the texts of a list of String nodes. */
export const stringsOf = (value: unknown): string[] =>
  (Array.isArray(value) ? value : []).flatMap((each) =>
    typeof each?.String?.sval === "string" ? [each.String.sval] : [],
  );

/** Calls `visit` with each field of a tree, at any depth. */
export const visitFields = (tree: unknown, visit: (key: string, fields: Fields) => void) => {
  if (typeof tree !== "object" || tree === null) return;
  for (const [key, field] of Object.entries(tree)) {
    if (typeof field === "object" && field !== null) visit(key, field as Fields);
    visitFields(field, visit);
  }
};

const relationTypes = new Set(["RangeVar", "RangeSubselect", "JoinExpr"]);

/** Returns the names that could refer to whole rows: of relations, CTEs, and items of FROM. */
export const rowNamesIn = (statement: unknown): ReadonlySet<string> => {
  const names = new Set<string>();
  visitFields(statement, (key, { relname, ctename, alias }) => {
    const aliased = relationTypes.has(key) ? (alias as Fields | undefined)?.aliasname : undefined;
    for (const name of [relname, ctename, aliased]) if (typeof name === "string") names.add(name);
  });
  return names;
};

const aggregates =
  /"(count|sum|avg|min|max|string_agg|array_agg|bool_and|bool_or|every|any_value|percentile_cont|percentile_disc|mode)"/;

/** The functions of drizzle/sql/chat-functions.sql that return rows: in FROM the planner inlines their bodies. */
const ofSql = /"(jsonb_each|jsonb_array_elements)(_text)?"/;

/** Reports whether the planner computes a SELECT separately, rather than merge it with the one that reads it. It moves conditions into it. */
const isSeparate = ({
  groupClause,
  limitCount,
  distinctClause,
  targetList,
  valuesLists,
  op,
}: Fields) =>
  op === "SETOP_NONE" &&
  (groupClause !== undefined ||
    limitCount !== undefined ||
    distinctClause !== undefined ||
    (Array.isArray(valuesLists) && valuesLists.length > 1) ||
    (Array.isArray(targetList) &&
      targetList.some((each) =>
        aggregates.test(JSON.stringify(each?.ResTarget?.val?.FuncCall?.funcname ?? "")),
      )));

const addTexts = (into: Set<string>, values: readonly unknown[]) => {
  for (const value of values) if (typeof value === "string") into.add(value);
};

/** The names that a statement introduces, by how the planner may replace them. */
export interface DerivedNames {
  /** The expressions of subqueries and CTEs that PostgreSQL may merge into the SELECT around them: replaced everywhere. */
  merged: ReadonlySet<string>;
  /** The expressions of those that PostgreSQL computes separately: replaced only in conditions, which it moves into them. */
  separate: ReadonlySet<string>;
  /** All others. A name that is nowhere is implied by an expression. */
  others: ReadonlySet<string>;
}

/**
 * Returns the names that subqueries and CTEs give to expressions, also those that name them again. `columns` are those of the relations,
 * some of them `computed`.
 */
export const derivedNamesIn = (
  statement: unknown,
  { columns, computed }: { columns: ReadonlySet<string>; computed: ReadonlySet<string> },
): DerivedNames => {
  const merged = new Set<string>();
  const separate = new Set<string>();
  const others = new Set<string>();
  const renames: { name: string; source: string }[] = [];
  const add = (select: unknown, positional: readonly string[], isMaterialized = false) => {
    const { SelectStmt } = (select ?? {}) as { SelectStmt?: Fields };
    const ofItsOwn = SelectStmt !== undefined && isSeparate(SelectStmt) ? separate : merged;
    const into = isMaterialized ? others : ofItsOwn;
    // The first branch names what the others compute.
    const isUnion = SelectStmt?.op !== undefined && SelectStmt.op !== "SETOP_NONE";
    for (const name of positional) into.add(name);
    visitFields(select, (key, { name: given, val }) => {
      if (key !== "ResTarget") return;
      const column = (val as { ColumnRef?: Fields } | undefined)?.ColumnRef;
      const source = stringsOf(column?.fields).at(-1);
      const name = typeof given === "string" ? given : (source ?? "");
      if (source === undefined || isUnion || isMaterialized) into.add(name);
      else renames.push({ name, source });
    });
  };
  visitFields(statement, (key, fields) => {
    const { alias, aliascolnames, ctequery, ctematerialized, subquery } = fields as Record<
      string,
      Fields | undefined
    >;
    const colnames = stringsOf((alias as Fields | undefined)?.colnames);
    switch (key) {
      case "RangeSubselect":
        return add(subquery, colnames);
      case "CommonTableExpr":
        return add(
          ctequery,
          stringsOf(aliascolnames),
          String(ctematerialized) === "CTEMaterializeAlways",
        );
      // It may be a CTE, or join subqueries.
      case "RangeVar":
      case "JoinExpr":
        return addTexts(merged, colnames);
      case "RangeFunction":
        return addTexts(ofSql.test(JSON.stringify(fields.functions)) ? merged : others, [
          ...colnames,
          alias?.aliasname,
          "key",
          "value",
          "ordinality",
        ]);
    }
  });
  const renamed = new Set(renames.map(({ name }) => name));
  const isImplied = (name: string) =>
    ![columns, others, renamed, separate].some((names) => names.has(name));
  for (let size = -1; size !== merged.size + separate.size; ) {
    size = merged.size + separate.size;
    for (const { name, source } of renames) {
      // A computed column under its own name is counted as such.
      const isRenamed = computed.has(source) && name !== source;
      if (merged.has(source) || isImplied(source) || isRenamed) merged.add(name);
      if (separate.has(source)) separate.add(name);
    }
  }
  return { merged, separate, others: others.union(renamed) };
};
