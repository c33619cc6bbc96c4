/** The sentences of an action, of its success and its failure; `"change"` if it changes what the fleet does or who may do it. */
type Sentences = readonly [success: string, failure: string, kind?: "change"];

/**
 * `created/create the watch {target}` says "created the watch …", and of a failure "could not create the watch …". Without a second verb or a
 * sentence of its own, a failure says the same.
 */
const event = (success: string, failure?: string): Sentences => {
  const [, past, verb, rest] = /^(\w+)\/(\w+)(.*)$/.exec(success) ?? [];
  return past ? [`${past}${rest}`, `could not ${verb}${rest}`] : [success, failure ?? success];
};

const change = (...sentences: Parameters<typeof event>): Sentences => {
  const [success, failure] = event(...sentences);
  return [success, failure, "change"];
};

const exported = (what: string): Sentences => [`exported ${what}`, `began to export ${what}`];

/**
 * The actions of the audit log, `noun.verb`, and what an event of each says. `{target}` is the event's target; `{name}` the detail of that
 * name; both become the record's own name if they are an id. A part in brackets is left out when one of its details is missing.
 */
export const auditSentences = {
  "enrollment_policy.create": change("created/create the enrollment policy {target}"),
  "enrollment_policy.freeze": change("froze/freeze the enrollment policy {target}"),
  "bootstrap_token.create": change(
    "created the bootstrap token {target}[ of the policy {policy_id}]",
    "could not create a bootstrap token[ of the policy {policy_id}]",
  ),
  "bootstrap_token.revoke": change(
    "revoked/revoke the bootstrap token {target}[ of the policy {policy_id}]",
  ),
  "collector.enroll": change(
    "enrolled[ with the certificate {certificate_id}][ under the policy {policy_id}]",
    "was refused enrollment[ {count} times][ with the token {token_prefix}]",
  ),
  "certificate.renew": event(
    "renewed its certificate: {target}[, after {predecessor_id}]",
    "could not renew the certificate {target}[: {signer_fault}]",
  ),
  "certificate.revoke": change("revoked/revoke the certificate {target}"),
  "certificate.reuse_refused": event(
    "used the replaced certificate {target} again",
    "used the replaced certificate {target} again and was rejected",
  ),
  "identity.revoke": change("revoked/revoke the host {target}"),
  "identity.clone_suspected": event(
    "is used by two processes at once[, with the certificate {certificate_id}]",
  ),
  "queue.forked": event(
    "sent from a copy of its queue, which continues as {queue_id}",
    "sent from a copy of its queue and was told to continue under a new queue id",
  ),
  "queue.close": event(
    "closed the queue {queue_id} of {target}",
    "could not close a queue of {target}",
  ),
  "ingest.gap": event("had sent envelopes {from} to {through} that the store then lost"),
  "ingest.lost": event(
    "had sent envelopes {from} to {through}, of which the object store lost {envelopes}",
  ),
  "ingest.adopt": event(
    "adopted {envelopes} envelopes of {hosts} hosts from {objects} objects[; it left {left} as they are]",
  ),
  "account.refuse": event("sent account {number} of queue {queue_id}, which core refuses"),
  "completeness.head": event(
    "appended to the log of statements: {size} entries",
    "could not append to the log of statements",
  ),
  "ca_bundle.publish": change("published/publish the CA bundle of {target}[: number {number}]"),
  "ingest_partition.drop": event(
    "dropped the stored day {target} after its retention[: {rows} rows]",
    "could not drop the stored day {target}",
  ),
  "retention.confirm": event(
    "confirmed the database's clock, {now}: retention continues",
    "could not confirm the database's clock",
  ),
  "config.publish": change("published/publish the config {target}"),
  "config.assign": change(
    "assigned/assign the config {config_id} to {target}[ by the rollout {rollout_id}]",
  ),
  "config.clear": change(
    "ended the assignment of[ the config {previous_config_id} to] {target}",
    "could not end the assignment of {target}",
  ),
  "config.rollback": change(
    "rolled {target} back to the config {config_id}",
    "could not roll {target} back",
  ),
  "config.fall_back": change(
    "returned {target} from the config {config_id} to its last known good one[: {fault}]",
    "found that {target} cannot run the config {config_id}, and no config to return to[: {fault}]",
  ),
  "config.export": exported("configs: {target}[, {rows} rows]"),
  "rollout.create": change(
    "began the rollout {target}[ of the config {config_id}][ to {hosts} hosts]",
    "could not begin a rollout[ of the config {config_id}]",
  ),
  "rollout.wave_start": change(
    "started/start wave {wave} of the rollout {target}[: {hosts} hosts]",
  ),
  "rollout.breach": change(
    "found too many failed hosts in the rollout {target}[: {failed} of wave {wave}]",
  ),
  "rollout.pause": change("paused/pause the rollout {target}"),
  "rollout.resume": change("resumed/resume the rollout {target}"),
  "rollout.abort": change("aborted/abort the rollout {target}"),
  "rollout.roll_back": change(
    "began to roll back the rollout {target}",
    "could not roll back the rollout {target}",
  ),
  "rollout.rolled_back": change("rolled/roll back the rollout {target}[: {reverted} hosts]"),
  "rollout.complete": change(
    "finished/finish the rollout {target}[ on {applied} of {hosts} hosts]",
  ),
  "rollout.export": exported("the hosts of the rollout {target}[, {rows} rows]"),
  "enrollment.export": exported("{target}[, {rows} rows]"),
  "fleet.export": exported("the fleet: {target}[, {rows} rows]"),
  "inventory.put": change(
    "put an inventory of {hosts} hosts: {added} added, {changed} changed, {removed} removed",
    "could not put an inventory",
  ),
  "applied_set.put": event("applied/apply the set {target}"),
  "budget.put": change(
    "set the budget {target}: {bytes_per_hour} bytes an hour",
    "could not set the budget {target}",
  ),
  "budget.delete": change("deleted/delete the budget {target}"),
  "budget.hold": event(
    "held {host_id} until {until}: budget {budget} used up",
    "could not hold {host_id}",
  ),
  "budget.release": event(
    "released {host_id} after {held_seconds} s, held by its budget {budget}",
    "could not release {host_id}",
  ),
  "audit.export": exported("the audit log as {target}[, {rows} events]"),
  "watch.create": change("created/create the watch {target}"),
  "watch.change": change("changed/change the watch {target}"),
  "watch.delete": change("deleted/delete the watch {target}[: {name}]"),
  "watch.silence": change(
    "set the silence of the watch {target}[, until {until}]",
    "could not silence the watch {target}",
  ),
  "watch.test": event("sent/send a test of the watch {target}"),
  "line.take": event("took/take the line {target} of Now[: {sentence}]"),
  "line.release": event("released/release the line {target} of Now[, which {taken_by} had taken]"),
  "host.nudge": event("asked {target} to act now: {nudge}", "could not ask {target} to act now"),
  "host_diag.request": event("requested/request the diagnostics of {target}"),
  "host_diag.read": event("read/read the diagnostics of {target}"),
  "completeness.export": exported("hours that are not complete[, {rows} rows]"),
  "completeness.read": event("read/read the statement of {target}[ for the host {host}]"),
  "telemetry.read": event("read/read the telemetry of {target}"),
  "telemetry.copy": event("copied/copy telemetry to the table {target}[: {envelopes} envelopes]"),
  "chat.tool_call": event(
    "let chat read the fleet[ with {tool}][, {row_count} rows]",
    "let chat ask for the fleet[ with {tool}], which failed",
  ),
  "operator.sign_in": event("signed in", "rejected[ {count} times] a sign-in of {target}"),
  "operator.sign_out": event("signed {target} out", "failed to sign {target} out"),
  "operator_session.create": event(
    "signed in with the program {client_name}",
    "could not sign in with a program[: {client_name}]",
  ),
  "operator_session.refuse": event(
    "refused the program[ {client_name} of] {target}",
    "refused the program[ {client_name} of] {target}[ {count} times]",
  ),
  "operator_session.revoke": change("signed/sign the program[ {client_name}] out[ of {user_id}]"),
  "workload.exchange": change(
    "signed in as the workload {subject}",
    "could not sign in as a workload",
  ),
  "workload.refuse": change(
    "rejected a workload",
    "rejected the token of a workload[ {count} times]",
  ),
  "directory.sync": change(
    "synced/sync the directory {target}[: {added} added, {changed} changed]",
  ),
  "directory.refuse": event(
    "accepted a snapshot of the directory {target}",
    "rejected a snapshot of the directory {target}",
  ),
  "directory.hold": change(
    "noticed a restored database, and held the access of {held} people",
    "could not hold the access of people",
  ),
  "directory.confirm": change(
    "confirmed the access of {confirmed} people after a restore",
    "could not confirm the access of people",
  ),
  "scim.refuse": event("accepted a SCIM caller", "rejected a SCIM caller[ {count} times]"),
};

/** An action of the audit log. */
export type AuditAction = keyof typeof auditSentences;

/** The actions of the audit log. */
export const auditActions = Object.keys(auditSentences) as AuditAction[];

/** The actions that change what the fleet does or who may do it; the others read, sign in or keep house. */
export const changeActions: readonly AuditAction[] = auditActions.filter(
  (action) => auditSentences[action][2] === "change",
);
