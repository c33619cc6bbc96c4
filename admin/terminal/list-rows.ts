import { pages } from "../../client/index.ts";
import { type Column, createListPrinter, type Format } from "./output.ts";
import type { Terminal } from "./terminal.ts";

/** The operation of a list, as the client declares it. */
type List = Parameters<typeof pages>[0];

/** The most items of a page. */
const pageItemsMax = 1000;

/**
 * Prints the items of a list as its pages arrive, all of them or at most `limit`. Returns whether there are more. A table waits for the last
 * one, whose width its columns need.
 */
export const printList = async <Operation extends List, Row>(
  terminal: Pick<Terminal, "out">,
  list: Operation,
  options: Parameters<Operation>[0],
  { format, columns, limit }: { format: Format; columns: readonly Column<Row>[]; limit?: number | undefined },
): Promise<boolean> => {
  const printer = createListPrinter(terminal, { format, columns });
  const { query, ...others } = options as { query?: object };
  const paged = { ...others, query: { ...query, limit: Math.min(limit ?? pageItemsMax, pageItemsMax) } };
  let left = limit ?? Number.POSITIVE_INFINITY;
  let hasMore = false;
  for await (const { items, next_cursor: next } of pages(list, paged as Parameters<Operation>[0])) {
    await printer.print((items as Row[]).slice(0, left));
    left -= items.length;
    hasMore = left < 0 || next !== null;
    if (left <= 0) break;
  }
  await printer.end();
  return hasMore;
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
