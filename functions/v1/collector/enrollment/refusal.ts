import type { RefusalGroup } from "../../../../proto/operator/enrollment.ts";
import type { RefusalGroupRow } from "../../../store/enrollment/report.ts";

/** Returns the view of a group of refusals. */
export const refusalView = (row: RefusalGroupRow): RefusalGroup => ({
  reason: row.reason,
  policy_id: row.policyId,
  policy_name: row.policyName,
  events: row.events,
  refused: row.refused,
  last_at: row.lastAt.toISOString(),
  last_address: row.lastAddress,
});
