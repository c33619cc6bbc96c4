import { updateReportedLabels } from "#functions/store/certificate/identities.ts";
import { healthReportOf } from "#functions/store/fleet/heartbeat-reports.ts";
import { createReportStore } from "#functions/store/fleet/heartbeats.ts";
import { createSeenRecorder, type StatusFigures } from "#functions/store/fleet/statuses.ts";
import { subnetOf } from "#kit/address.ts";
import { mapValues } from "#kit/map-values.ts";
import type { HostReport } from "#proto/management/heartbeat.ts";
import { reportedNumbers } from "#proto/management/reported-numbers.ts";
import type { AdmittedCollector } from "../certificate/authenticate.ts";
import type { HeartbeatCore } from "./heartbeat.ts";
import { fleetThresholds } from "./thresholds.ts";

/** An admitted host whose agent has just been heard of. */
export interface SeenAgent extends Pick<AdmittedCollector, "identityId"> {
  remoteAddress: string;
  /** From `digestKey`, of its report. */
  digest: bigint;
}

/** An agent reports no figures. */
const noFigures: StatusFigures = {
  queueRecords: 0,
  queueBytes: 0,
  oldestRecordAgeSeconds: null,
  droppedRecordsTotal: 0,
  deadLetters: 0,
  lastAckAgeSeconds: null,
  process: mapValues(reportedNumbers.process, () => null),
};

/** Creates the functions that record heartbeats of agents which speak OpAMP. TLS has verified them, so that they need no proof. */
export const createAgentReports = ({ config, heartbeats, clock, observe }: HeartbeatCore) => {
  const thresholds = fleetThresholds(config);
  const record = createSeenRecorder(heartbeats, clock, thresholds);
  const store = createReportStore(heartbeats, clock, thresholds);
  return {
    /** Counts a heartbeat whose report is the stored one; `report_needed` if it is another. Concurrent calls share a statement. */
    async seen({ identityId, remoteAddress, digest }: SeenAgent) {
      const subnet = subnetOf(remoteAddress);
      const seenAt = clock.now();
      const recorded = await record({ identityId, seenAt, digest, subnet, figures: noFigures });
      if (recorded.outcome === "recorded") observe.heartbeat("admitted");
      return recorded;
    },
    /** Stores a report, and counts it as a heartbeat. */
    async store(
      { identityId, certificateId, remoteAddress, digest }: SeenAgent & AdmittedCollector,
      report: HostReport,
    ) {
      await store({
        identity_id: identityId,
        certificate_id: certificateId,
        at: new Date(clock.now()),
        report_digest: digest.toString(),
        subnet: subnetOf(remoteAddress),
        ...healthReportOf(report),
      });
      await updateReportedLabels(heartbeats.db, { identityId, labels: report.labels ?? null });
      observe.heartbeat("admitted");
    },
  };
};
