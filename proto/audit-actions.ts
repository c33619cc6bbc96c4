/** The actions of the audit log, `noun.verb`. */
export const auditActions = [
  "enrollment_policy.create",
  "enrollment_policy.freeze",
  "bootstrap_token.create",
  "bootstrap_token.revoke",
  "collector.enroll",
  "certificate.renew",
  "certificate.revoke",
  "certificate.reuse_refused",
  "identity.revoke",
  "identity.clone_suspected",
  "queue.forked",
  "ingest.gap",
  "ingest_partition.drop",
  "config.publish",
  "config.assign",
  "config.clear",
  "config.rollback",
  "config.export",
  "enrollment.export",
  "fleet.export",
  "audit.export",
  "chat.tool_call",
  "operator.sign_in",
  "operator_session.create",
  "operator_session.refuse",
  "operator_session.revoke",
  "directory.sync",
  "directory.refuse",
] as const;

/** An action of the audit log. */
export type AuditAction = (typeof auditActions)[number];
