import { create } from "@bufbuild/protobuf";
import { equalBytes } from "#kit/bytes.ts";
import {
  type AgentToServer,
  AgentToServerSchema,
  type ComponentHealth,
  ComponentHealthSchema,
} from "#proto/gen/opamp/v1/opamp_pb.js";

/** The parts of a message that an agent omits while they are unchanged. */
const statusParts = [
  "agentDescription",
  "health",
  "effectiveConfig",
  "remoteConfigStatus",
  "customCapabilities",
  "availableComponents",
  "connectionSettingsStatus",
] as const satisfies readonly (keyof AgentToServer)[];

/** Reports whether a message has a part of the agent's status. */
export const hasStatus = (message: AgentToServer): boolean =>
  statusParts.some((part) => message[part] !== undefined);

/** Returns the certificate request of a message, in PEM; undefined for none. */
export const csrOf = ({ connectionSettingsRequest }: AgentToServer): string | undefined => {
  const csr = connectionSettingsRequest?.opamp?.certificateRequest?.csr;
  return csr && new TextDecoder().decode(csr.subarray(0, csrBytesMax));
};

/** More bytes are no certificate request. */
const csrBytesMax = 65_536;

/**
 * Returns the status of an agent after a message: parts that the message omits stay as they were. Another `instance_uid` is another agent,
 * of which nothing is known yet. The health of one that disconnects says so; one that reports none stays without.
 */
export const mergeAgentMessage = (
  known: AgentToServer | undefined,
  message: AgentToServer,
  now: number,
): AgentToServer => {
  const { instanceUid, sequenceNum } = message;
  const before = known && equalBytes(known.instanceUid, instanceUid) ? known : undefined;
  const merged = create(AgentToServerSchema, {
    instanceUid,
    sequenceNum,
    capabilities: message.capabilities || before?.capabilities || 0n,
  });
  for (const part of statusParts)
    Object.assign(merged, { [part]: message[part] ?? before?.[part] });
  if (message.agentDisconnect !== undefined && merged.health !== undefined)
    merged.health = disconnected(merged.health, now);
  return merged;
};

const disconnected = ({ startTimeUnixNano, lastError }: ComponentHealth, now: number) =>
  create(ComponentHealthSchema, {
    startTimeUnixNano,
    statusTimeUnixNano: BigInt(now) * 1_000_000n,
    lastError: ["disconnected by itself", lastError].filter(Boolean).join(": "),
  });
