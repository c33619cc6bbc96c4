import * as v from "valibot";
import type { FleetHealthRow } from "#proto/fleet-health/columns.ts";
import { FleetHealthReport } from "#proto/fleet-health/report.ts";

/** The health of a fleet, as core reports it. */
export interface FleetHealth {
  /** When core generated each page: a large fleet's take seconds, in which hosts change their states. */
  pagesAt: [number, ...number[]];
  thresholds: FleetHealthReport["thresholds"];
  byState: FleetHealthReport["summary"]["by_state"];
  /** Sorted by identity. */
  rows: FleetHealthRow[];
}

const pageRows = 1000;

/** Reads the health report to its last page. `get` returns the body of a 200 for a path, or throws; `filter` is part of the query. */
export const readHealth = async (
  get: (path: string) => Promise<unknown>,
  filter: Readonly<Record<string, string>> = {},
): Promise<FleetHealth> => {
  const page = async (cursor: string | null) => {
    const query = new URLSearchParams({
      ...filter,
      limit: `${pageRows}`,
      ...(cursor === null ? {} : { cursor }),
    });
    return v.parse(FleetHealthReport, await get(`/v1/collector/health?${query}`));
  };
  const { generated_at, thresholds, summary, items, next_cursor } = await page(null);
  const rows = [...items];
  const pagesAt: FleetHealth["pagesAt"] = [Date.parse(generated_at)];
  for (let cursor = next_cursor; cursor !== null; ) {
    const next = await page(cursor);
    rows.push(...next.items);
    pagesAt.push(Date.parse(next.generated_at));
    cursor = next.next_cursor;
  }
  return { pagesAt, thresholds, byState: summary.by_state, rows };
};
