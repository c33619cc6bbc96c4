import type { Origin } from "#functions/domain/audit/audit-log.ts";
import {
  createHeartbeats,
  type HeartbeatAnswer,
  type HeartbeatCore,
} from "#functions/domain/fleet/heartbeat.ts";
import { parse, parseJson, route } from "#functions/http/route.ts";
import { Problem } from "#functions/problems.ts";
import type { ParseBody } from "#kit/request-bodies.ts";
import { HeartbeatRequest, HeartbeatResponse } from "#proto/management/heartbeat.ts";
import { managementBytesMax } from "#proto/management/proof.ts";
import {
  collector,
  type ManagementCore,
  managementProblems,
  proveBody,
} from "./collector-guard.ts";

/** `POST /v1/collector/heartbeat`: a host reports its health. */
export const heartbeatRoute = (core: HeartbeatCore & ManagementCore) => {
  const acceptHeartbeat = createHeartbeats(core);
  return route({
    method: "POST",
    path: "/v1/collector/heartbeat",
    operationId: "sendHeartbeat",
    summary: "Report a collector's health",
    guard: collector(core, "heartbeat", core.observe.heartbeat),
    body: HeartbeatRequest,
    replies: { 200: { description: "Accepted and committed", schema: HeartbeatResponse } },
    problems: managementProblems,
    handle: async ({ body, caller, origin }) => {
      const response = await acceptHeartbeat(caller, body, origin);
      const { desiredConfig, sendDiag } = response;
      const view: HeartbeatResponse = {
        server_time: new Date(response.serverTime).toISOString(),
        next_heartbeat_seconds: response.nextHeartbeatSeconds,
        desired_config: desiredConfig && {
          config_id: desiredConfig.configId,
          config_hash: desiredConfig.configHash,
        },
        renew_now: response.renewNow,
        ...(sendDiag === null ? {} : { send_diag: { request_id: sendDiag } }),
        ca_bundles: response.caBundles,
      };
      return { status: 200, body: view };
    },
  });
};

/**
 * Creates the function that accepts a heartbeat's body from another transport, with a digest, from the caller with this certificate: with
 * the checks and problems of the route.
 */
export const createReportAcceptor = (
  core: HeartbeatCore & ManagementCore,
  parseBody: ParseBody,
) => {
  const acceptHeartbeat = createHeartbeats(core);
  return async (
    { der, body, digest }: { der: Uint8Array; body: Uint8Array; digest: Uint8Array },
    origin: Origin,
  ): Promise<HeartbeatAnswer> => {
    const request = parseJson(() => parseBody(body, managementBytesMax));
    const caller = await proveBody(core, { purpose: "heartbeat", der, body: request }).catch(
      (error: unknown) => {
        core.observe.heartbeat(error instanceof Problem ? error.code : "internal");
        throw error;
      },
    );
    return acceptHeartbeat(caller, parse(HeartbeatRequest, request), origin, digest);
  };
};
