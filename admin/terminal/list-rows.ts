import { items } from "../../client/index.ts";
import { type Column, type Format, printRows } from "./output.ts";
import type { Terminal } from "./terminal.ts";

/** The operation of a list, as the client declares it. */
type List = Parameters<typeof items>[0];

/** Prints the items of a list, with as many requests as it needs; at most `limit` items if given. */
export const printList = async <Operation extends List, Row>(
  terminal: Pick<Terminal, "out">,
  list: Operation,
  options: Parameters<Operation>[0],
  { format, columns, limit }: { format: Format; columns: readonly Column<Row>[]; limit?: number | undefined },
): Promise<void> => {
  const rows: Row[] = [];
  for await (const item of items(list, options)) {
    if (rows.length === limit) break;
    rows.push(item as Row);
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
