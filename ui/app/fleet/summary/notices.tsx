import type { FleetHealthReport } from "../../../../proto/fleet-health/report.ts";
import { ExportLags } from "./export-lags.tsx";
import { Outages } from "./outages.tsx";
import { RetentionPaused } from "./retention-paused.tsx";

/** What the report says of core itself. Loaded when there is something, which is seldom. */
export const Notices = (props: { report: FleetHealthReport }) => (
  <div class="fleet-notices">
    <Outages outages={props.report.outages} asOf={Date.parse(props.report.generated_at)} />
    <RetentionPaused pause={props.report.retention_paused} />
    <ExportLags exports={props.report.exports} />
  </div>
);
