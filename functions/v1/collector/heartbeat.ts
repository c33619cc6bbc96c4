import { rfc3339 } from "../../../kit/clock.ts";
import { HeartbeatRequest, HeartbeatResponse } from "../../../proto/management/heartbeat.ts";
import { createHeartbeats, type HeartbeatCore } from "../../domain/fleet/heartbeat.ts";
import { route } from "../../http/route.ts";
import { collector, type ManagementCore, managementProblems } from "./collector-guard.ts";

/** `POST /v1/collector/heartbeat`: a host reports how it is. */
export const heartbeatRoute = (core: HeartbeatCore & ManagementCore) => {
  const takeHeartbeat = createHeartbeats(core);
  return route({
    method: "POST",
    path: "/v1/collector/heartbeat",
    operationId: "sendHeartbeat",
    summary: "Report a collector's health",
    guard: collector(core, "heartbeat", core.observe.heartbeat),
    body: HeartbeatRequest,
    replies: { 200: { description: "Taken, and committed", schema: HeartbeatResponse } },
    problems: managementProblems,
    handle: async ({ body, caller, origin }) => {
      const answer = await takeHeartbeat(caller, body, origin);
      const { desiredConfig } = answer;
      const view: HeartbeatResponse = {
        server_time: rfc3339(answer.serverTime),
        next_heartbeat_seconds: answer.nextHeartbeatSeconds,
        desired_config: desiredConfig && { config_id: desiredConfig.configId, config_hash: desiredConfig.configHash },
        renew_now: answer.renewNow,
      };
      return { status: 200, body: view };
    },
  });
};
