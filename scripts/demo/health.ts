import type * as v from "valibot";
import type { HealthRowView } from "../../functions/v1/collector/health/row.ts";
import type { OperatorApi } from "./operator-api.ts";

/** A row of the fleet health report, as the API gives it. */
export type HealthRow = v.InferOutput<typeof HealthRowView>;

/** The fleet health report as the auditor sees it, in the order of identities. */
export const readHealth = async (api: OperatorApi): Promise<HealthRow[]> => {
  const { items } = await api<{ items: HealthRow[] }>("auditor", "GET", "/v1/collector/health");
  return items;
};
