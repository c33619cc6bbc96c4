import { HeartbeatRequest, HeartbeatResponse } from "../../../proto/management/heartbeat.ts";
import { createHeartbeats, type HeartbeatCore } from "../../domain/fleet/heartbeat.ts";
import { route } from "../../http/route.ts";
import { collector, type ManagementCore, managementProblems } from "./collector-guard.ts";

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
      const { desiredConfig } = response;
      const view: HeartbeatResponse = {
        server_time: new Date(response.serverTime).toISOString(),
        next_heartbeat_seconds: response.nextHeartbeatSeconds,
        desired_config: desiredConfig && { config_id: desiredConfig.configId, config_hash: desiredConfig.configHash },
        renew_now: response.renewNow,
      };
      return { status: 200, body: view };
    },
  });
};
