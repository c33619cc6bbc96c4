/** A Markdown table with aligned columns, as the formatter of the repository writes it. */
export const markdownTable = (head: readonly string[], rows: readonly (readonly string[])[]): string => {
  const widths = head.map((_, column) => Math.max(3, ...[head, ...rows].map((row) => width(row[column]))));
  const line = (cells: readonly string[]) =>
    `| ${widths.map((size, column) => (cells[column] ?? "") + " ".repeat(size - width(cells[column]))).join(" | ")} |`;
  const rule = `| ${widths.map((size) => "-".repeat(size)).join(" | ")} |`;
  return [line(head), rule, ...rows.map(line)].join("\n");
};

const width = (cell = ""): number => Array.from(cell).length;
