import { pages } from "#client/index.ts";
import { type Column, createListPrinter, type OutputOptions } from "./output.ts";
import type { Terminal } from "./terminal.ts";

/** The operation of a list, as the client declares it. */
type List = Parameters<typeof pages>[0];

/** The most items of a page. */
const pageItemsMax = 1000;

/**
 * Prints the items of a list as its pages arrive, all of them or at most `limit`. Returns whether there are more. A table is printed after the
 * last page, because its column widths depend on all rows.
 */
export const printList = async <Operation extends List, Row>(
  terminal: Pick<Terminal, "out">,
  { format, limit = Number.POSITIVE_INFINITY }: OutputOptions & { limit?: number | undefined },
  columns: readonly Column<Row>[],
  list: Operation,
  request: Parameters<Operation>[0],
): Promise<boolean> => {
  const printer = createListPrinter(terminal, { format }, columns);
  const { query, ...others } = request as { query?: object };
  const paged = { ...others, query: { ...query, limit: Math.min(limit, pageItemsMax) } };
  let left = limit;
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
