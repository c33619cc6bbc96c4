/** Returns a Markdown table with aligned columns, as the repository's formatter writes it. */
export const markdownTable = (
  head: readonly string[],
  rows: readonly (readonly string[])[],
): string => {
  const widths = head.map((_, column) =>
    Math.max(3, ...[head, ...rows].map((row) => width(row[column]))),
  );
  const line = (cells: readonly string[]) =>
    `| ${widths.map((size, column) => (cells[column] ?? "") + " ".repeat(size - width(cells[column]))).join(" | ")} |`;
  const rule = `| ${widths.map((size) => "-".repeat(size)).join(" | ")} |`;
  return [line(head), rule, ...rows.map(line)].join("\n");
};

const width = (cell = ""): number => Array.from(cell).length;

/** Replaces the text between `<!-- generated: name -->` and `<!-- end: name -->` of a page. Throws when the page lacks them. */
export const replaceRegion = (page: string, name: string, content: string): string => {
  const open = `<!-- generated: ${name} -->`;
  const close = `<!-- end: ${name} -->`;
  const from = page.indexOf(open);
  const to = page.indexOf(close);
  if (from < 0 || to < from) throw new Error(`the page has no region ${open} … ${close}`);
  return `${page.slice(0, from + open.length)}\n\n${content}\n\n${page.slice(to)}`;
};
