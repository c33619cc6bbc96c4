import { uuidv7 } from "../kit/entropy.ts";
import type { HeartbeatCore } from "./domain/fleet/heartbeat.ts";
import type { StatusRegister } from "./ingest/statuses.ts";
import { Problem } from "./problems.ts";
import type { ManagementCore } from "./v1/collector/collector-guard.ts";
import { createReportAcceptor } from "./v1/collector/heartbeat.ts";

/** Creates what decides on statuses of the stream: signed reports by the code of the route. */
export const createStatusRegister = (core: HeartbeatCore & ManagementCore): StatusRegister => {
  const acceptReport = createReportAcceptor(core);
  return {
    intervalSeconds: core.config.heartbeatIntervalSeconds,
    async accept({ connection }, report) {
      if (connection === undefined) throw new Problem("client_certificate_required");
      const { der, remoteAddress } = connection;
      return acceptReport(der, report, { requestId: uuidv7(core), remoteAddress });
    },
    record: async () => "report_needed",
  };
};
