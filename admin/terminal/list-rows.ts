import { items } from "../../client/index.ts";
import { type Column, type Format, printRows } from "./output.ts";
import type { Terminal } from "./terminal.ts";

/** The operation of a list, as the client declares it. */
type List = Parameters<typeof items>[0];

/** The most items of a page. */
const pageItemsMax = 1000;

/** Prints the items of a list, with as few requests as it needs; at most `limit` items if given. */
export const printList = async <Operation extends List, Row>(
  terminal: Pick<Terminal, "out">,
  list: Operation,
  options: Parameters<Operation>[0],
  { format, columns, limit }: { format: Format; columns: readonly Column<Row>[]; limit?: number | undefined },
): Promise<void> => {
  const rows: Row[] = [];
  const { query, ...others } = options as { query?: object };
  const paged = { ...others, query: { ...query, limit: Math.min(limit ?? pageItemsMax, pageItemsMax) } };
  for await (const item of items(list, paged as Parameters<Operation>[0])) {
    rows.push(item as Row);
    if (rows.length === limit) break;
  }
  await printRows(terminal, { format, columns, rows });
};

/** Returns the columns of members of a row by their names. */
export const columnsOf = <Row extends object>(...names: readonly (keyof Row & string)[]): Column<Row>[] =>
  names.map((name) => ({
    title: name.replaceAll("_", " "),
    value: (row) => {
      const value: unknown = row[name];
      return Array.isArray(value) ? value.join(" ") : (value as string | number | boolean | null);
    },
  }));
