import { readFile } from "node:fs/promises";
import { loadModule, parseSync } from "libpg-query";

/** A node of PostgreSQL's parse tree: its kind is its only key. */
type Node = Record<string, Record<string, unknown>>;

/** Statements that change nothing for a core that does not know what they make. */
const harmless = new Set([
  "CreateStmt",
  "CreateEnumStmt",
  "CreateSeqStmt",
  "CommentStmt",
  "InsertStmt",
  "UpdateStmt",
  "SelectStmt",
]);

/**
 * Returns what a migration does beyond adding tables, indexes, and columns that may be left out: the previous core runs on the new
 * schema, and would fail. A name that ends in `_breaking` says so, and keeps that core from starting.
 */
export const breakingParts = async (sql: string): Promise<string[]> => {
  await loadModule();
  const statements = (parseSync(sql) as unknown as { stmts?: { stmt: Node }[] }).stmts ?? [];
  const created = new Set<unknown>();
  return statements.flatMap(({ stmt }) => {
    const [kind = "", node = {}] = Object.entries(stmt)[0] ?? [];
    const table = (node.relation as { relname?: string } | undefined)?.relname;
    if (kind === "CreateStmt") created.add(table);
    if (
      harmless.has(kind) ||
      (created.has(table) && (kind === "AlterTableStmt" || kind === "IndexStmt"))
    )
      return [];
    return breakingStatement(kind, node, table);
  });
};

const breakingStatement = (
  kind: string,
  node: Record<string, unknown>,
  table: string | undefined,
): string[] => {
  if (kind === "IndexStmt")
    return node.unique ? [`a unique index on ${table}, which the previous core may violate`] : [];
  if (kind === "DropStmt" && node.removeType === "OBJECT_INDEX") return [];
  if (kind !== "AlterTableStmt") return [`${kind}${table === undefined ? "" : ` on ${table}`}`];
  return (node.cmds as Node[]).flatMap(breakingCommand).map((part) => `${part} on ${table}`);
};

/** Returns what a command of ALTER TABLE changes, if the previous core may fail by it. */
const breakingCommand = (command: Node): string[] => {
  const { subtype, name, def } = command.AlterTableCmd as {
    subtype: string;
    name?: string;
    def?: Node;
  };
  if (subtype === "AT_ColumnDefault") return [];
  if (subtype === "AT_AddColumn" && def?.ColumnDef && mayBeLeftOut(def.ColumnDef)) return [];
  const column = name ?? def?.ColumnDef?.colname ?? def?.Constraint?.conname ?? "";
  return [`${subtype.replace("AT_", "")} ${column}`];
};

const mayBeLeftOut = ({ constraints = [] }: { constraints?: Node[] }): boolean => {
  const kinds = new Set(constraints.map(({ Constraint }) => Constraint?.contype));
  const hasValue = ["CONSTR_DEFAULT", "CONSTR_IDENTITY", "CONSTR_GENERATED"].some((kind) =>
    kinds.has(kind),
  );
  return (
    (hasValue || !kinds.has("CONSTR_NOTNULL")) &&
    !kinds.has("CONSTR_UNIQUE") &&
    !kinds.has("CONSTR_PRIMARY")
  );
};

/** Returns the faults of the migrations after the first. */
export const additionFaults = async (): Promise<string[]> => {
  const journal = JSON.parse(await readFile("drizzle/migrations/meta/_journal.json", "utf8")) as {
    entries: { tag: string }[];
  };
  const names = journal.entries
    .slice(1)
    .map(({ tag }) => tag)
    .filter((tag) => !tag.endsWith("_breaking"));
  const faults = names.map(async (name) => {
    const path = `drizzle/migrations/${name}.sql`;
    return (await breakingParts(await readFile(path, "utf8"))).map((part) => `${path}: ${part}`);
  });
  return (await Promise.all(faults)).flat();
};
