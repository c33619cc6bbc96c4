import { markdownTable } from "#scripts/generate/markdown.ts";

/** What became of the lines of a history. */
export interface LineOutcome {
  written: number;
  lost: number;
  /** Lines that arrived more than once. */
  doubled: number;
  /** What the program logged about its files as a warning or an error, each message once. */
  told: readonly string[];
}

/** Compares what was written with what has arrived and with what the program logged; `logs` is the folder of the log. */
export const readOutcome = (
  written: number,
  arrivals: ReadonlyMap<number, number>,
  output: readonly string[],
  logs: string,
): LineOutcome => {
  const warnings = output.filter((line) => /warn|error|lost/i.test(line) && line.includes(logs));
  return {
    written,
    lost: written - arrivals.size,
    doubled: [...arrivals.values()].filter((times) => times > 1).length,
    told: [...new Set(warnings.map((line) => line.replaceAll(/\d+/g, "0")))],
  };
};

const describe = ({ lost, doubled, told }: LineOutcome): string => {
  const parts: string[] = [];
  if (lost > 0)
    parts.push(`${lost.toLocaleString("en")} lost, ${told.length > 0 ? "told" : "untold"}`);
  if (doubled > 0) parts.push(`${doubled.toLocaleString("en")} doubled`);
  return parts.join("; ") || "-";
};

/** Returns the outcomes of histories, by their names and those of programs, as a table in Markdown. */
export const tableOf = (
  outcomes: Readonly<Record<string, Readonly<Record<string, LineOutcome>>>>,
): string => {
  const rows = Object.entries(outcomes);
  const programs = Object.keys(rows[0]?.[1] ?? {});
  const cells = rows.map(([history, row]) => {
    const [{ written } = { written: 0 }] = Object.values(row);
    return [history, written.toLocaleString("en"), ...Object.values(row).map(describe)];
  });
  return markdownTable(["history", "lines", ...programs], cells);
};
