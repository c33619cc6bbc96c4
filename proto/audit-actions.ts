/** The sentences of an action, of its success and its failure; `"change"` if it changes what the fleet does or who may do it. */
type Sentences = readonly [success: string, failure: string, kind?: "change"];

/**
 * The actions of the audit log, `noun.verb`, and what an event of each says. `{target}` is the event's target; `{name}` the detail of that
 * name; both become the record's own name if they are an id. A part in brackets is left out when one of its details is missing.
 */
export const auditSentences = {
  "enrollment_policy.create": [
    "created the enrollment policy {target}",
    "could not create the enrollment policy {target}",
    "change",
  ],
  "enrollment_policy.freeze": [
    "froze the enrollment policy {target}",
    "could not freeze the enrollment policy {target}",
    "change",
  ],
  "bootstrap_token.create": [
    "created the bootstrap token {target}[ of the policy {policy_id}]",
    "could not create a bootstrap token[ of the policy {policy_id}]",
    "change",
  ],
  "bootstrap_token.revoke": [
    "revoked the bootstrap token {target}[ of the policy {policy_id}]",
    "could not revoke the bootstrap token {target}",
    "change",
  ],
  "collector.enroll": [
    "enrolled[ with the certificate {certificate_id}][ under the policy {policy_id}]",
    "was refused enrollment[ {count} times][ with the token {token_prefix}]",
    "change",
  ],
  "certificate.renew": [
    "renewed its certificate: {target}[, after {predecessor_id}]",
    "could not renew the certificate {target}[: {signer_fault}]",
  ],
  "certificate.revoke": [
    "revoked the certificate {target}",
    "could not revoke the certificate {target}",
    "change",
  ],
  "certificate.reuse_refused": [
    "used the replaced certificate {target} again",
    "used the replaced certificate {target} again and was rejected",
  ],
  "identity.revoke": ["revoked the host {target}", "could not revoke the host {target}", "change"],
  "identity.clone_suspected": [
    "is used by two processes at once[, with the certificate {certificate_id}]",
    "is used by two processes at once[, with the certificate {certificate_id}]",
  ],
  "queue.forked": [
    "sent from a copy of its queue, which continues as {queue_id}",
    "sent from a copy of its queue and was told to continue under a new queue id",
  ],
  "queue.close": ["closed the queue {queue_id} of {target}", "could not close a queue of {target}"],
  "ingest.gap": [
    "had sent envelopes {from} to {through} that the store then lost",
    "had sent envelopes {from} to {through} that the store then lost",
  ],
  "ingest.repeat": [
    "had sent envelopes {from} to {through} that may be stored twice",
    "had sent envelopes {from} to {through} that may be stored twice",
  ],
  "account.refuse": [
    "sent account {number} of queue {queue_id}, which core refuses",
    "sent account {number} of queue {queue_id}, which core refuses",
  ],
  "completeness.head": [
    "appended to the log of statements: {size} entries",
    "could not append to the log of statements",
  ],
  "ingest_partition.drop": [
    "dropped the stored day {target} after its retention[: {rows} rows]",
    "could not drop the stored day {target}",
  ],
  "retention.confirm": [
    "confirmed that the database's clock, at {now}, is right, and retention goes on",
    "could not confirm the database's clock",
  ],
  "config.publish": [
    "published the config {target}",
    "could not publish the config {target}",
    "change",
  ],
  "config.assign": [
    "assigned the config {config_id} to {target}[ by the rollout {rollout_id}]",
    "could not assign the config {config_id} to {target}",
    "change",
  ],
  "config.clear": [
    "ended the assignment of[ the config {previous_config_id} to] {target}",
    "could not end the assignment of {target}",
    "change",
  ],
  "config.rollback": [
    "rolled {target} back to the config {config_id}",
    "could not roll {target} back",
    "change",
  ],
  "config.export": [
    "exported configs: {target}[, {rows} rows]",
    "began to export configs: {target}[, {rows} rows]",
  ],
  "rollout.create": [
    "began the rollout {target}[ of the config {config_id}][ to {hosts} hosts]",
    "could not begin a rollout[ of the config {config_id}]",
    "change",
  ],
  "rollout.wave_start": [
    "started wave {wave} of the rollout {target}[: {hosts} hosts]",
    "could not start wave {wave} of the rollout {target}",
    "change",
  ],
  "rollout.breach": [
    "found too many failed hosts in the rollout {target}[: {failed} of wave {wave}]",
    "found too many failed hosts in the rollout {target}[: {failed} of wave {wave}]",
    "change",
  ],
  "rollout.pause": [
    "paused the rollout {target}",
    "could not pause the rollout {target}",
    "change",
  ],
  "rollout.resume": [
    "resumed the rollout {target}",
    "could not resume the rollout {target}",
    "change",
  ],
  "rollout.abort": [
    "aborted the rollout {target}",
    "could not abort the rollout {target}",
    "change",
  ],
  "rollout.roll_back": [
    "began to roll back the rollout {target}",
    "could not roll back the rollout {target}",
    "change",
  ],
  "rollout.rolled_back": [
    "rolled back the rollout {target}[: {reverted} hosts]",
    "could not roll back the rollout {target}",
    "change",
  ],
  "rollout.complete": [
    "finished the rollout {target}[ on {applied} of {hosts} hosts]",
    "could not finish the rollout {target}",
    "change",
  ],
  "rollout.export": [
    "exported the hosts of the rollout {target}[, {rows} rows]",
    "began to export the hosts of the rollout {target}[, {rows} rows]",
  ],
  "enrollment.export": [
    "exported {target}[, {rows} rows]",
    "began to export {target}[, {rows} rows]",
  ],
  "fleet.export": [
    "exported the fleet: {target}[, {rows} rows]",
    "began to export the fleet: {target}[, {rows} rows]",
  ],
  "inventory.put": [
    "put an inventory of {hosts} hosts: {added} added, {changed} changed, {removed} removed",
    "could not put an inventory",
    "change",
  ],
  "applied_set.put": ["applied the set {target}", "could not apply the set {target}"],
  "budget.put": [
    "set the budget {target}: {bytes_per_hour} bytes an hour",
    "could not set the budget {target}",
    "change",
  ],
  "budget.delete": [
    "deleted the budget {target}",
    "could not delete the budget {target}",
    "change",
  ],
  "budget.hold": [
    "held {host_id}, which had sent its budget {budget}, until {until}",
    "could not hold {host_id}",
  ],
  "budget.release": [
    "held {host_id} no longer, after {held_seconds} s of its budget {budget}",
    "could not release {host_id}",
  ],
  "audit.export": [
    "exported the audit log as {target}[, {rows} events]",
    "began to export the audit log as {target}[, {rows} events]",
  ],
  "watch.create": ["created the watch {target}", "could not create the watch {target}", "change"],
  "watch.change": ["changed the watch {target}", "could not change the watch {target}", "change"],
  "watch.delete": [
    "deleted the watch {target}[: {name}]",
    "could not delete the watch {target}",
    "change",
  ],
  "watch.silence": [
    "set the silence of the watch {target}[, until {until}]",
    "could not silence the watch {target}",
    "change",
  ],
  "watch.test": [
    "sent a test of the watch {target}",
    "could not send a test of the watch {target}",
  ],
  "host.nudge": ["asked {target} to act now: {nudge}", "could not ask {target} to act now"],
  "host_diag.request": [
    "requested the diagnostics of {target}",
    "could not request the diagnostics of {target}",
  ],
  "host_diag.read": [
    "read the diagnostics of {target}",
    "could not read the diagnostics of {target}",
  ],
  "completeness.export": [
    "exported hours that are not complete[, {rows} rows]",
    "began to export hours that are not complete[, {rows} rows]",
  ],
  "completeness.read": [
    "read the statement of {target}[ for the host {host}]",
    "could not read the statement of {target}",
  ],
  "telemetry.read": ["read the telemetry of {target}", "could not read the telemetry of {target}"],
  "telemetry.copy": [
    "copied telemetry to the table {target}[: {envelopes} envelopes]",
    "could not copy telemetry to the table {target}",
  ],
  "chat.tool_call": [
    "let chat read the fleet[ with {tool}][, {row_count} rows]",
    "let chat ask for the fleet[ with {tool}], which failed",
  ],
  "operator.sign_in": ["signed in", "rejected[ {count} times] a sign-in of {target}"],
  "operator.sign_out": ["signed {target} out", "failed to sign {target} out"],
  "operator_session.create": [
    "signed in with the program {client_name}",
    "could not sign in with a program[: {client_name}]",
  ],
  "operator_session.refuse": [
    "refused the program[ {client_name} of] {target}",
    "refused the program[ {client_name} of] {target}[ {count} times]",
  ],
  "operator_session.revoke": [
    "signed the program[ {client_name}] out[ of {user_id}]",
    "could not sign the program[ {client_name}] out",
    "change",
  ],
  "workload.exchange": [
    "signed in as the workload {subject}",
    "could not sign in as a workload",
    "change",
  ],
  "workload.refuse": [
    "rejected a workload",
    "rejected the token of a workload[ {count} times]",
    "change",
  ],
  "directory.sync": [
    "synced the directory {target}[: {added} added, {changed} changed]",
    "could not sync the directory {target}",
    "change",
  ],
  "directory.refuse": [
    "accepted a snapshot of the directory {target}",
    "rejected a snapshot of the directory {target}",
  ],
  "directory.hold": [
    "noticed a restored database, and held the access of {held} people",
    "could not hold the access of people",
    "change",
  ],
  "directory.confirm": [
    "confirmed the access of {confirmed} people after a restore",
    "could not confirm the access of people",
    "change",
  ],
  "scim.refuse": ["accepted a SCIM caller", "rejected a SCIM caller[ {count} times]"],
} as const satisfies Record<string, Sentences>;

/** An action of the audit log. */
export type AuditAction = keyof typeof auditSentences;

/** The actions of the audit log. */
export const auditActions = Object.keys(auditSentences) as AuditAction[];

/** The actions that change what the fleet does or who may do it; the others read, sign in or keep house. */
export const changeActions: readonly AuditAction[] = auditActions.filter(
  (action) => (auditSentences[action] as Sentences)[2] === "change",
);
