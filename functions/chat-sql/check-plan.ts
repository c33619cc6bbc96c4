/**
 * Bounds the memory of a statement by its plan, as PostgreSQL has made it with hashing off: each node keeps no rows, or keeps them within
 * `work_mem` and writes the others to temporary files.
 */

/** The memory of a sort, a window or a list of rows. */
export const workMem = "4MB";
/** The most nodes of one plan that may keep rows: 128 MiB in all. */
const keepingMax = 32;

/** Session settings that a plan is made with: hash tables outgrow `work_mem` when keys repeat or estimates are wrong. */
export const planSettings = `set local work_mem = '${workMem}'; set local hash_mem_multiplier = 1; set local enable_hashagg = off;
  set local enable_hashjoin = off; set local enable_memoize = off`;

const passing = new Set([
  "Result",
  "ProjectSet",
  "Append",
  "Merge Append",
  "Limit",
  "Unique",
  "Group",
  "Subquery Scan",
  "Values Scan",
  "Nested Loop",
  "Merge Join",
  "Seq Scan",
  "Index Scan",
  "Index Only Scan",
  "Bitmap Heap Scan",
  "BitmapAnd",
  "BitmapOr",
]);
const keeping = new Set([
  "Sort",
  "Incremental Sort",
  "Materialize",
  "WindowAgg",
  "CTE Scan",
  "Function Scan",
  "Bitmap Index Scan",
]);
/** Nodes with several strategies, and those of them that do not hash. */
const strategic = new Map([
  ["Aggregate", new Set(["Plain", "Sorted"])],
  ["SetOp", new Set(["Sorted"])],
]);
/** The tables with at most one row for each host or policy. */
const tablesOfHosts = new Set([
  "fleet_host",
  "fleet_status",
  "collector_health",
  "collector_identity",
  "enrollment_policy",
  "label_set",
]);

interface PlanNode {
  "Node Type": string;
  Strategy?: string;
  "Relation Name"?: string;
  "Inner Unique"?: boolean;
  "Subplan Name"?: string;
  "Grouping Sets"?: readonly unknown[];
  Plans?: readonly PlanNode[];
}

/** Returns why a plan, from `EXPLAIN (VERBOSE, FORMAT JSON)`, may need too much memory; null when it does not. For the model. */
export const checkPlan = ([{ Plan }]: readonly [{ Plan: PlanNode }]): string | null => {
  const nodes = nodesIn(Plan);
  for (const { "Node Type": type, Strategy = "" } of nodes)
    if (!passing.has(type) && !keeping.has(type) && !strategic.get(type)?.has(Strategy))
      return `PostgreSQL would need ${Strategy} ${type} for this statement, which is not allowed: write it in another way`;
  const kept = nodes.map((node) =>
    keeping.has(node["Node Type"]) ? 1 : (node["Grouping Sets"]?.length ?? 0),
  );
  if (kept.reduce((sum, count) => sum + count, 0) > keepingMax)
    return "the statement sorts, groups or joins too often: ask for less at once";
  // The hash table of IN and EXISTS has no limit: it may have the hosts.
  const hashed = new Set(
    Array.from(JSON.stringify(Plan).matchAll(/hashed (SubPlan \d+)/g), ([, name]) => name),
  );
  const isLarge = (node: PlanNode) => hashed.has(node["Subplan Name"]) && !hasRowsOfHosts(node);
  return nodes.some(isLarge)
    ? "use a join, or NOT EXISTS in WHERE, instead of this IN, NOT IN or EXISTS"
    : null;
};

const nodesIn = (node: PlanNode): PlanNode[] => [node, ...(node.Plans ?? []).flatMap(nodesIn)];

/** Reports whether a plan returns at most one row for each host. */
const hasRowsOfHosts = ({ Plans: [outer, inner] = [], ...node }: PlanNode): boolean => {
  if (outer === undefined) return tablesOfHosts.has(node["Relation Name"] ?? "");
  if (node["Node Type"] === "ProjectSet" || node["Node Type"] === "Append") return false;
  return (inner === undefined || node["Inner Unique"] === true) && hasRowsOfHosts(outer);
};
