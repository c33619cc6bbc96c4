import { auditSentences } from "#proto/audit-actions.ts";
import type { AuditEventView, NamedRecord, RecordNames } from "#proto/audit-event.ts";
import { decoded } from "../browser/decoded.ts";
import { plainText, shortened } from "../format/format.ts";

/** A piece of a sentence; `href` where it names a record with a page of its own, `full` where its text is shortened. */
export interface EventPiece {
  text: string;
  href?: string;
  full?: string;
}

/** Returns a host's name for itself: the last part of its identity. */
export const deviceOf = (identity: string): string => {
  const last = identity.slice(identity.lastIndexOf("/") + 1);
  return decoded(last) || identity;
};

/** Returns the page that shows a record; undefined for one without. */
const pageOf = (id: string, { type, name, identity_id: identityId }: NamedRecord) => {
  if (type === "collector_config") return `/changes/configs/${id}`;
  if (type === "rollout") return `/changes/rollouts/${id}`;
  if (type === "watch") return `/watches/${id}`;
  if (type === "person") return `/changes/audit?actor=${encodeURIComponent(name)}`;
  if (identityId !== null) return `/hosts/${identityId}`;
  return type === "enrollment_policy" || type === "bootstrap_token"
    ? "/access/enrollment"
    : undefined;
};

/** Returns a value of an event: a record by its name and page, anything else as its text. */
const valuePiece = (value: unknown, names: RecordNames): EventPiece => {
  const text = typeof value === "string" ? value : JSON.stringify(value);
  const record = Object.hasOwn(names, text) ? names[text] : undefined;
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
  return { text, full, href: `/changes/audit?actor=${encodeURIComponent(actor.display)}` };
};

/** Returns the name in a placeholder such as `{target}`. */
const nameOf = (part: string) => /^\{(\w+)\}$/.exec(part)?.[1];

/** Returns a sentence about the action, in pieces; an unknown action by its name. */
export const sentencePieces = (event: AuditEventView, names: RecordNames): EventPiece[] => {
  const known = Object.entries(auditSentences).find(([action]) => action === event.action)?.[1];
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
