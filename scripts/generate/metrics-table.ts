import type { Core } from "#functions/core.ts";
import { countedMetrics } from "#functions/counted-metrics.ts";
import { figuresOf } from "#functions/ops/figures.ts";
import { markdownTable } from "./markdown.ts";

/** Renders the table of core's metrics, the counted ones and those that are read at each scrape. */
export const renderMetrics = (): string => {
  // Only a figure's `read` needs core.
  const figures = figuresOf({} as Core, { checks: {}, credentials: () => [] });
  const rows = [...Object.values(countedMetrics), ...figures].map(({ name, labels, help }) => [
    `\`${name}${labels.length > 0 ? `{${labels.join()}}` : ""}\``,
    help,
  ]);
  return markdownTable(["metric", "counts"], rows);
};
