import { isCpu, type PeerFigures, type SideResult } from "./pair.ts";

/** Formats the results of a pair as the rows of a Markdown table, ours first; the quotients are ours divided by that side's. */
export const formatPair = (work: string, results: readonly SideResult[]): string =>
  results
    .map(({ side, figures, oursDividedBy, killed }) =>
      row([
        work,
        side.kind === "floor" ? `floor: ${side.name}` : side.name,
        formatFigures(figures, formatFigure),
        formatFigures(oursDividedBy, (_, value) => significant(value)),
        killed === null
          ? side.guarantees
          : `${side.guarantees}; lost ${killed.lost.toLocaleString("en-US")} of ${killed.acknowledged.toLocaleString("en-US")}`,
      ]),
    )
    .join("\n");

const row = (cells: readonly string[]): string => `| ${cells.join(" | ")} |`;

/** The head of the table. */
export const tableHead: string = [
  row([
    "work",
    "side",
    "figures, medians",
    "ours / this side",
    "what it does, what a kill -9 loses",
  ]),
  row(["---", "---", "---", "---", "---"]),
].join("\n");

const formatFigures = (
  figures: PeerFigures,
  format: (name: string, value: number) => string,
): string =>
  Object.entries(figures)
    .map(([name, value]) => `${labelOf(name)} ${format(name, value)}`)
    .join(", ");

const units: Readonly<Record<string, string>> = {
  _us: " µs",
  _ms: " ms",
  _mb: " MB",
  _percent: " %",
  _per_second: "/s",
  _s: " s",
};

const unitOf = (name: string): string =>
  Object.keys(units).find((unit) => name.endsWith(unit)) ?? "";

const labelOf = (name: string): string => {
  const label = name.slice(0, name.length - unitOf(name).length).replaceAll("_", " ");
  return isCpu(name) ? label.replace("cpu", "CPU") : label;
};

const formatFigure = (name: string, value: number): string =>
  `${significant(value)}${units[unitOf(name)] ?? ""}`;

/** Three significant digits, thousands with commas. */
const significant = (value: number): string =>
  Number(value.toPrecision(3)).toLocaleString("en-US", { maximumSignificantDigits: 3 });
