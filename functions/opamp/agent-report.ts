import type { KeyValue } from "#proto/gen/opamp/v1/anyvalue_pb.js";
import type { AgentToServer } from "#proto/gen/opamp/v1/opamp_pb.js";
import type { HeartbeatReport } from "#proto/management/heartbeat.ts";

/** Returns the report of an agent's host, in the form of a heartbeat of our own collector. */
export const agentReport = (state: AgentToServer): HeartbeatReport => {
  const { identifyingAttributes = [], nonIdentifyingAttributes = [] } =
    state.agentDescription ?? {};
  const attribute = attributesOf([...identifyingAttributes, ...nonIdentifyingAttributes]);
  const { healthy = true, lastError = "", startTimeUnixNano = 0n } = state.health ?? {};
  const startedAt = new Date(Number(startTimeUnixNano / 1_000_000n)).toISOString();
  return {
    boot_id: state.instanceUid.toHex(),
    collector: {
      version: attribute("service.version") ?? "unknown",
      commit: "unknown",
      hostname: attribute("host.name") ?? "unknown",
      platform: `${attribute("os.type") ?? "unknown"}/${attribute("host.arch") ?? "unknown"}`,
      started_at: startedAt,
    },
    config: {
      valid: healthy,
      errors: healthy ? [] : [lastError],
      running_config_hash: null,
    },
    queue: {
      records: 0,
      bytes: 0,
      max_bytes: 0,
      oldest_record_age_seconds: null,
      dropped_records_total: 0,
      at_risk: false,
    },
    forwarder: { connected: false, last_ack_at: null, last_error: null },
    renewal: {
      status: "not_configured",
      last_attempt_at: null,
      next_attempt_at: null,
      last_error: null,
    },
  };
};

const attributesOf = (attributes: readonly KeyValue[]) => {
  const texts = new Map(
    attributes.flatMap(({ key, value }) =>
      value?.value.case === "stringValue" ? [[key, value.value.value] as const] : [],
    ),
  );
  return (name: string) => texts.get(name);
};
