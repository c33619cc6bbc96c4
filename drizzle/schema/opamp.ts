import { index } from "drizzle-orm/pg-core";
import { bigint, bytea, nullable, table, timestamp, uuid } from "./columns.ts";
import { collectorIdentity } from "./enrollment.ts";

/** An agent that speaks OpAMP, for its next poll and for other cores. Heartbeats on a socket do not write it. */
export const opampAgent = table(
  "opamp_agent",
  {
    identityId: uuid()
      .primaryKey()
      .references(() => collectorIdentity.id),
    instanceUid: bytea(),
    sequenceNum: bigint(),
    /** The merged `AgentToServer` without the effective config, at most 64 KiB. */
    state: bytea(),
    /** At most 256 KiB, without secrets. */
    effectiveConfig: nullable.text(),
    /** Components as `receivers.otlp`; null while they are not known. */
    availableComponents: nullable.text().array(),
    /** The config that core sent last, and when. */
    offeredConfigHash: nullable.text(),
    offeredAt: nullable.timestamp(),
    appliedConfigHash: nullable.text(),
    appliedAt: nullable.timestamp(),
    /** The assignment whose config failed on this agent. */
    failedAssignmentId: nullable.uuid(),
    failedReason: nullable.text(),
    failedAt: nullable.timestamp(),
    lastGoodConfigHash: nullable.text(),
    /** The instance before the current one, and when it reported last: two that alternate are a clone. */
    previousInstanceUid: nullable.bytea(),
    previousInstanceAt: nullable.timestamp(),
    /** The number before it fell, as after a restart; two agents with one `instance_uid` continue both. */
    previousSequenceNum: nullable.bigint(),
    /** When an admin asked for a restart that core has not sent yet. */
    restartAskedAt: nullable.timestamp(),
    /** The first eight bytes of the digest of the host's report, the desired config of the last decision, and when to decide again. */
    reportDigest: nullable.bigint(),
    desiredConfigHash: nullable.text(),
    lookAt: nullable.timestamp(),
    updatedAt: timestamp(),
  },
  (columns) => [index("opamp_agent_instance").on(columns.instanceUid)],
);
