type Fields = Readonly<Record<string, unknown>>;

/** Returns the texts of a list of String nodes. */
export const stringsOf = (value: unknown): string[] =>
  (Array.isArray(value) ? value : []).flatMap((each) =>
    typeof each?.String?.sval === "string" ? [each.String.sval] : [],
  );

/** Calls `visit` with each field of a tree, at any depth. */
const visitFields = (tree: unknown, visit: (key: string, fields: Fields) => void): void => {
  if (typeof tree !== "object" || tree === null) return;
  for (const [key, field] of Object.entries(tree)) {
    if (typeof field === "object" && field !== null) visit(key, field as Fields);
    visitFields(field, visit);
  }
};

const relationTypes = new Set(["RangeVar", "RangeSubselect", "JoinExpr"]);

/** Returns the names by which a statement could mean whole rows: of relations, CTEs, and what FROM names. */
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

/** Whether the planner computes a SELECT by itself, rather than merge it with the SELECT that reads it. */
const isSeparate = ({ groupClause, limitCount, distinctClause, targetList, valuesLists, op }: Fields): boolean =>
  op === "SETOP_NONE" &&
  (groupClause !== undefined ||
    limitCount !== undefined ||
    distinctClause !== undefined ||
    (Array.isArray(valuesLists) && valuesLists.length > 1) ||
    (Array.isArray(targetList) &&
      targetList.some((each) => aggregates.test(JSON.stringify(each?.ResTarget?.val?.FuncCall?.funcname ?? "")))));

/**
 * Returns the names that subqueries and CTEs give to expressions which the planner may merge into the SELECT around them, and all other
 * names that the statement introduces. A name that is in neither is implied by an expression.
 */
export const derivedNamesIn = (statement: unknown): { names: ReadonlySet<string>; others: ReadonlySet<string> } => {
  const names = new Set<string>();
  const others = new Set<string>();
  const add = (select: unknown, positional: readonly string[], isMaterialized = false): void => {
    const { SelectStmt } = (select ?? {}) as { SelectStmt?: Fields };
    const into = isMaterialized || (SelectStmt !== undefined && isSeparate(SelectStmt)) ? others : names;
    for (const name of positional) into.add(name);
    visitFields(select, (key, { name, val }) => {
      const isPlain = (val as Fields | undefined)?.ColumnRef !== undefined;
      if (key === "ResTarget") (isPlain ? others : into).add(typeof name === "string" ? name : "");
    });
  };
  visitFields(statement, (key, fields) => {
    const { alias, aliascolnames, ctequery, ctematerialized, subquery } = fields as Record<string, Fields | undefined>;
    const colnames = stringsOf((alias as Fields | undefined)?.colnames);
    if (key === "RangeSubselect") add(subquery, colnames);
    else if (key === "CommonTableExpr")
      add(ctequery, stringsOf(aliascolnames), String(ctematerialized) === "CTEMaterializeAlways");
    // It may be a CTE.
    else if (key === "RangeVar") for (const name of colnames) names.add(name);
    else if (key === "RangeFunction")
      for (const name of [...colnames, alias?.aliasname, "key", "value", "ordinality"])
        if (typeof name === "string") others.add(name);
  });
  return { names, others };
};
