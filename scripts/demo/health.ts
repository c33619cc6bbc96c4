import type { OperatorApi } from "./operator-api.ts";

/** What the demo reads of a row of the fleet health report. */
export interface HealthRow {
  identity_id: string;
  identity: string;
  device_id: string;
  state: string;
  last_heartbeat_at: string | null;
  last_envelope_at: string | null;
  certificate: { status: string } | null;
  queue: { records: number } | null;
  last_auth_failure: { at: string; reason: string } | null;
}

/** The fleet health report as the auditor sees it, in the order of identities. */
export const readHealth = async (api: OperatorApi): Promise<HealthRow[]> => {
  const { items } = await api<{ items: HealthRow[] }>("auditor", "GET", "/v1/collector/health");
  return items;
};
