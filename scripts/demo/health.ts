import type { FleetHealthRow } from "../../proto/fleet-health/row.ts";
import type { OperatorApi } from "../lab/operator-api.ts";

/** What the identities of the demo's own collectors begin with. */
export const identityPrefix = "spiffe://fleet.example.test/host/";

/** The demo's own collectors as the auditor sees them in the fleet health report, in the order of identities. */
export const readHealth = async (api: OperatorApi): Promise<FleetHealthRow[]> => {
  const query = new URLSearchParams({ q: identityPrefix });
  const { items } = await api<{ items: FleetHealthRow[] }>("auditor", "GET", `/v1/collector/health?${query}`);
  return items;
};
