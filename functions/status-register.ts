import { uuidv7 } from "../kit/entropy.ts";
import { parseBody } from "../kit/request-bodies.ts";
import type { HeartbeatCore } from "./domain/fleet/heartbeat.ts";
import { createStatusRecorder } from "./domain/fleet/status.ts";
import type { CallerConnection } from "./ingest/admission.ts";
import type { StatusRegister } from "./ingest/statuses.ts";
import { Problem } from "./problems.ts";
import type { ManagementCore } from "./v1/collector/collector-guard.ts";
import { createReportAcceptor } from "./v1/collector/heartbeat.ts";

/** Creates what decides on statuses of the stream: on signed reports by the code of the route. `pause` spaces the statements of the others. */
export const createStatusRegister = (
  core: HeartbeatCore & ManagementCore,
  grouping: { pause?: () => Promise<void> } = {},
): StatusRegister => {
  const acceptReport = createReportAcceptor(core, parseBody);
  const record = createStatusRecorder(core, grouping);
  const originOf = ({ remoteAddress }: CallerConnection) => ({
    requestId: uuidv7(core),
    remoteAddress,
  });
  return {
    intervalSeconds: core.config.heartbeatIntervalSeconds,
    accept: async ({ connection }, body, digest) => {
      if (connection === undefined) throw new Problem("client_certificate_required");
      return acceptReport({ der: connection.der, body, digest }, originOf(connection));
    },
    record({ connection, ...caller }, status) {
      if (connection === undefined) throw new Problem("client_certificate_required");
      return record({ ...caller, remoteAddress: connection.remoteAddress }, status, () =>
        originOf(connection),
      );
    },
  };
};
