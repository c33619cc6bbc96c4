import type { AuditAction } from "../../../proto/audit-actions.ts";
import type { AuditEventView, NamedRecord, RecordNames } from "../../../proto/audit-event.ts";
import { plainText, shortened } from "../format/format.ts";

/**
 * What an actor did, by action and outcome. `{target}` is the event's target; `{name}` the detail of that name; both become the record's
 * own name if they are an id. A part in brackets is left out when one of its details is missing.
 */
export const eventSentences: Readonly<
  Record<AuditAction, readonly [success: string, failure: string]>
> = {
  "enrollment_policy.create": [
    "created the enrollment policy {target}",
    "could not create the enrollment policy {target}",
  ],
  "enrollment_policy.freeze": [
    "froze the enrollment policy {target}",
    "could not freeze the enrollment policy {target}",
  ],
  "bootstrap_token.create": [
    "created the bootstrap token {target}[ of the policy {policy_id}]",
    "could not create a bootstrap token[ of the policy {policy_id}]",
  ],
  "bootstrap_token.revoke": [
    "revoked the bootstrap token {target}[ of the policy {policy_id}]",
    "could not revoke the bootstrap token {target}",
  ],
  "collector.enroll": [
    "enrolled[ with the certificate {certificate_id}][ under the policy {policy_id}]",
    "was refused enrollment[ {count} times][ with the token {token_prefix}]",
  ],
  "certificate.renew": [
    "renewed its certificate: {target}[, after {predecessor_id}]",
    "could not renew the certificate {target}[: {signer_fault}]",
  ],
  "certificate.revoke": [
    "revoked the certificate {target}",
    "could not revoke the certificate {target}",
  ],
  "certificate.reuse_refused": [
    "used the replaced certificate {target} again",
    "used the replaced certificate {target} again and was rejected",
  ],
  "identity.revoke": ["revoked the host {target}", "could not revoke the host {target}"],
  "identity.clone_suspected": [
    "is used by two processes at once[, with the certificate {certificate_id}]",
    "is used by two processes at once[, with the certificate {certificate_id}]",
  ],
  "queue.forked": [
    "sent from a copy of its queue, which continues as {queue_id}",
    "sent from a copy of its queue and was told to continue under a new queue id",
  ],
  "completeness.head": [
    "appended to the log of statements: {size} entries",
    "could not append to the log of statements",
  ],
  "ingest.gap": [
    "had sent envelopes {from} to {through} that the store then lost",
    "had sent envelopes {from} to {through} that the store then lost",
  ],
  "ingest.repeat": [
    "had sent envelopes {from} to {through} that may be stored twice",
    "had sent envelopes {from} to {through} that may be stored twice",
  ],
  "inventory.put": [
    "put an inventory of {hosts} hosts: {added} added, {changed} changed, {removed} removed",
    "could not put an inventory",
  ],
  "applied_set.put": ["applied the set {target}", "could not apply the set {target}"],
  "budget.put": [
    "set the budget {target}: {bytes_per_hour} bytes an hour",
    "could not set the budget {target}",
  ],
  "budget.delete": ["deleted the budget {target}", "could not delete the budget {target}"],
  "budget.hold": [
    "held {host_id}, which had sent its budget {budget}, until {until}",
    "could not hold {host_id}",
  ],
  "budget.release": [
    "held {host_id} no longer, after {held_seconds} s of its budget {budget}",
    "could not release {host_id}",
  ],
  "account.refuse": [
    "sent account {number} of queue {queue_id}, which core refuses",
    "sent account {number} of queue {queue_id}, which core refuses",
  ],
  "ingest_partition.drop": [
    "dropped the stored day {target} after its retention[: {rows} rows]",
    "could not drop the stored day {target}",
  ],
  "retention.confirm": [
    "confirmed that the database's clock, at {now}, is right, and retention goes on",
    "could not confirm the database's clock",
  ],
  "config.publish": ["published the config {target}", "could not publish the config {target}"],
  "config.assign": [
    "assigned the config {config_id} to {target}[ by the rollout {rollout_id}]",
    "could not assign the config {config_id} to {target}",
  ],
  "config.clear": [
    "ended the assignment of[ the config {previous_config_id} to] {target}",
    "could not end the assignment of {target}",
  ],
  "config.rollback": [
    "rolled {target} back to the config {config_id}",
    "could not roll {target} back",
  ],
  "config.export": [
    "exported configs: {target}[, {rows} rows]",
    "began to export configs: {target}[, {rows} rows]",
  ],
  "rollout.create": [
    "began the rollout {target}[ of the config {config_id}][ to {hosts} hosts]",
    "could not begin a rollout[ of the config {config_id}]",
  ],
  "rollout.wave_start": [
    "started wave {wave} of the rollout {target}[: {hosts} hosts]",
    "could not start wave {wave} of the rollout {target}",
  ],
  "rollout.breach": [
    "found too many failed hosts in the rollout {target}[: {failed} of wave {wave}]",
    "found too many failed hosts in the rollout {target}[: {failed} of wave {wave}]",
  ],
  "rollout.pause": ["paused the rollout {target}", "could not pause the rollout {target}"],
  "rollout.resume": ["resumed the rollout {target}", "could not resume the rollout {target}"],
  "rollout.abort": ["aborted the rollout {target}", "could not abort the rollout {target}"],
  "rollout.roll_back": [
    "began to roll back the rollout {target}",
    "could not roll back the rollout {target}",
  ],
  "rollout.rolled_back": [
    "rolled back the rollout {target}[: {reverted} hosts]",
    "could not roll back the rollout {target}",
  ],
  "rollout.complete": [
    "finished the rollout {target}[ on {applied} of {hosts} hosts]",
    "could not finish the rollout {target}",
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
  "audit.export": [
    "exported the audit log as {target}[, {rows} events]",
    "began to export the audit log as {target}[, {rows} events]",
  ],
  "watch.create": ["created the watch {target}", "could not create the watch {target}"],
  "watch.change": ["changed the watch {target}", "could not change the watch {target}"],
  "watch.delete": ["deleted the watch {target}[: {name}]", "could not delete the watch {target}"],
  "watch.silence": [
    "set the silence of the watch {target}[, until {until}]",
    "could not silence the watch {target}",
  ],
  "watch.test": [
    "sent a test of the watch {target}",
    "could not send a test of the watch {target}",
  ],
  "queue.close": ["closed the queue {queue_id} of {target}", "could not close a queue of {target}"],
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
  "workload.exchange": ["signed in as the workload {subject}", "could not sign in as a workload"],
  "workload.refuse": ["rejected a workload", "rejected the token of a workload[ {count} times]"],
  "operator_session.revoke": [
    "signed the program[ {client_name}] out[ of {user_id}]",
    "could not sign the program[ {client_name}] out",
  ],
  "directory.sync": [
    "synced the directory {target}[: {added} added, {changed} changed]",
    "could not sync the directory {target}",
  ],
  "directory.refuse": [
    "accepted a snapshot of the directory {target}",
    "rejected a snapshot of the directory {target}",
  ],
  "directory.hold": [
    "noticed a restored database, and held the access of {held} people",
    "could not hold the access of people",
  ],
  "directory.confirm": [
    "confirmed the access of {confirmed} people after a restore",
    "could not confirm the access of people",
  ],
  "scim.refuse": ["accepted a SCIM caller", "rejected a SCIM caller[ {count} times]"],
};

/** The actions that change what the fleet does or who may do it; the others read, sign in or keep house. */
export const changeActions: readonly AuditAction[] = [
  "enrollment_policy.create",
  "enrollment_policy.freeze",
  "bootstrap_token.create",
  "bootstrap_token.revoke",
  "collector.enroll",
  "certificate.revoke",
  "identity.revoke",
  "inventory.put",
  "budget.put",
  "budget.delete",
  "config.publish",
  "config.assign",
  "config.clear",
  "config.rollback",
  "rollout.create",
  "rollout.wave_start",
  "rollout.breach",
  "rollout.pause",
  "rollout.resume",
  "rollout.abort",
  "rollout.roll_back",
  "rollout.rolled_back",
  "rollout.complete",
  "watch.create",
  "watch.change",
  "watch.delete",
  "watch.silence",
  "operator_session.revoke",
  "workload.exchange",
  "workload.refuse",
  "directory.sync",
  "directory.hold",
  "directory.confirm",
];

/** A piece of a sentence; `href` where it names a record with a page of its own, `full` where its text is shortened. */
export interface EventPiece {
  text: string;
  href?: string;
  full?: string;
}

const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** Returns a host's name for itself: the last part of its identity. */
export const deviceOf = (identity: string): string => {
  const last = identity.slice(identity.lastIndexOf("/") + 1);
  try {
    return decodeURIComponent(last) || identity;
  } catch {
    return last;
  }
};

/** Returns the page that shows a record; undefined for one without. */
const pageOf = (
  id: string,
  { type, name, identity_id: identityId }: NamedRecord,
): string | undefined => {
  if (type === "collector_config") return `/configs/${id}`;
  if (type === "rollout") return `/rollouts/${id}`;
  if (type === "watch") return `/watches/${id}`;
  if (type === "person") return `/audit?actor=${encodeURIComponent(name)}`;
  if (identityId !== null) return `/hosts/${identityId}`;
  return type === "enrollment_policy" || type === "bootstrap_token" ? "/enrollment" : undefined;
};

/** Returns a value of an event: a record by its name and page, anything else as its text. */
const valuePiece = (value: unknown, names: RecordNames): EventPiece => {
  const text = typeof value === "string" ? value : JSON.stringify(value);
  const record = uuid.test(text) && Object.hasOwn(names, text) ? names[text] : undefined;
  if (record === undefined) return { text: plainText(text) };
  const href = pageOf(text, record);
  return { ...namePiece(record), ...(href === undefined ? {} : { href }) };
};

const namePiece = ({ type, name, detail }: NamedRecord): EventPiece => {
  const full = plainText(detail === null ? name : `${name} (${detail})`);
  if (type === "collector_identity") return { text: plainText(deviceOf(name)), full };
  if (type === "certificate") return { text: shortened(name), full };
  if (type === "collector_config")
    return {
      text: detail === null ? name.slice(0, 6) : `${name.slice(0, 6)} ${plainText(detail)}`,
      full,
    };
  return { text: plainText(name), full };
};

/** Returns the actor: an operator by email, a host by its device, each with its page. */
export const actorPiece = (
  { actor }: Pick<AuditEventView, "actor">,
  names: RecordNames,
): EventPiece => {
  if (Object.hasOwn(names, actor.id) && actor.type === "collector")
    return valuePiece(actor.id, names);
  const full = plainText(actor.display);
  const text = actor.type === "collector" ? plainText(deviceOf(actor.display)) : full;
  return { text, full, href: `/audit?actor=${encodeURIComponent(actor.display)}` };
};

/** Returns the name in a placeholder such as `{target}`. */
const nameOf = (part: string): string | undefined => /^\{(\w+)\}$/.exec(part)?.[1];

/** Returns what the actor did, as pieces of a sentence; an unknown action by its name. */
export const sentencePieces = (event: AuditEventView, names: RecordNames): EventPiece[] => {
  const known = Object.entries(eventSentences).find(([action]) => action === event.action)?.[1];
  const template = known?.[event.outcome === "success" ? 0 : 1] ?? `${event.action} on {target}`;
  const detailOf = (name: string): unknown =>
    name === "target" ? event.target.id : event.details[name];
  const isGiven = (name: string) => ![undefined, null, ""].includes(detailOf(name) as undefined);
  const withOptional = template.replace(/\[([^\]]*)\]/g, (_, part: string) =>
    [...part.matchAll(/\{(\w+)\}/g)].every(([, name = ""]) => isGiven(name)) ? part : "",
  );
  return withOptional
    .split(/(\{\w+\})/)
    .filter((part) => part !== "")
    .map((part, index, parts) => {
      const name = nameOf(part);
      const before = nameOf(parts[index - 1] ?? "");
      // "1 row", not "1 rows".
      const isOne = before !== undefined && detailOf(before) === 1;
      if (name === undefined) return { text: isOne ? part.replace(/^ (\w+)s\b/, " $1") : part };
      return isGiven(name)
        ? valuePiece(detailOf(name), names)
        : { text: name === "target" ? "nobody" : "unknown" };
    });
};

/** A name of an event's record and its values. */
type EventFact = readonly [name: string, values: readonly EventPiece[]];

/** Returns everything else that the event records, in order: reason, origin, details with names, place in the chain. */
export const eventFacts = (event: AuditEventView, names: RecordNames): EventFact[] => {
  const text = (name: string, value: string | number | null): EventFact[] =>
    value === null || value === "" ? [] : [[name, [{ text: plainText(String(value)) }]]];
  const details = Object.entries(event.details)
    .filter(
      ([, value]) =>
        value !== null && value !== "" && !(Array.isArray(value) && value.length === 0),
    )
    .map(
      ([name, value]): EventFact => [
        name.replaceAll("_", " "),
        (Array.isArray(value) ? value : [value]).map((one) => valuePiece(one, names)),
      ],
    );
  return [
    ...text("action", event.action),
    ...text("reason code", event.reason_code),
    ...text("reason", event.reason),
    ...details,
    ...text("from address", event.remote_addr),
    ...text("request", event.request_id),
    ...text("number in the chain", event.seq),
    ...text("hash", event.hash),
  ];
};
