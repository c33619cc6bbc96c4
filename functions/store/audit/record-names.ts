import { type SQL, sql } from "drizzle-orm";
import type { NamedRecordType } from "#proto/audit-event.ts";
import type { Executor } from "../database/database.ts";
import { arrayLiteral, substring } from "../database/statements.ts";
import type { AuditSubject } from "./list.ts";

/** The name of a record, and what distinguishes it from others of the same name. */
export interface RecordName {
  id: string;
  type: NamedRecordType;
  name: string;
  /** A config's name, the identity of a certificate, the policy of a token, the filter of a rollout or a watch. */
  detail: string | null;
  /** The host to which the record belongs. */
  identityId: string | null;
}

/** Finds the names of records by their ids, whatever their type; an unknown id has none. */
export const findRecordNames = async (
  db: Executor,
  ids: readonly string[],
): Promise<RecordName[]> => {
  if (ids.length === 0) return [];
  const among = sql`any(${arrayLiteral(ids)}::uuid[])`;
  const rows = await db.execute<
    Omit<RecordName, "identityId"> & { identity_id: string | null }
  >(sql`
    select id, 'collector_identity' as type, identity as name, null as detail, id as identity_id
      from collector_identity where id = ${among}
    union all select c.id, 'certificate', c.serial_number, i.identity, i.id
      from certificate c join collector_identity i on i.id = c.identity_id where c.id = ${among}
    union all select id, 'collector_config', config_hash, name, null from collector_config where id = ${among}
    union all select id, 'enrollment_policy', name, null, null from enrollment_policy where id = ${among}
    union all select t.id, 'bootstrap_token', t.token_prefix, p.name, null
      from bootstrap_token t join enrollment_policy p on p.id = t.policy_id where t.id = ${among}
    union all select r.id, 'rollout', coalesce(c.name, left(c.config_hash, 12)), nullif(r.filter, ''), null
      from rollout r join collector_config c on c.id = r.config_id where r.id = ${among}
    union all select id, 'watch', name, nullif(filter, ''), null from watch where id = ${among}
    union all select user_id, 'person', primary_email, nullif(display_name, ''), null from person where user_id = ${among}`);
  return rows.map(({ identity_id, ...row }) => ({ ...row, identityId: identity_id }));
};

/** Hosts of the same device id that one name selects at most. */
const hostsMax = 100;

/** The first condition follows from the second, and can use an index if the server has pg_trgm. */
const isNamed = (text: string): SQL =>
  sql`f.search like lower(${substring(text)}) and (f.identity = ${text} or f.device_id = ${text})`;

/**
 * Finds the subjects of events that an operator names by: a record's id; a host's identity or device id; a certificate's serial number or
 * fingerprint; a config's name or hash, or at least six characters of it; the name of a policy or a watch, the prefix of a token, or the
 * email of a person. A host includes its certificates, and its rejected enrollments. Text that names nothing is a target's id itself.
 */
export const findAuditSubject = async (db: Executor, text: string): Promise<AuditSubject> => {
  const hex = text.toLowerCase().replaceAll(":", "");
  const isId = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(text);
  const fingerprint = /^[0-9a-f]{64}$/.test(hex) ? `\\x${hex}` : null;
  const serial = /^[0-9a-f]{8,64}$/.test(hex) ? hex : null;
  const hash = /^[0-9a-f]{6,64}$/.test(text) ? `${text}%` : null;
  const rows = await db.execute<{ id: string; identity: string | null }>(sql`
    with host as (
      select f.identity_id, f.identity from fleet f where ${isId ? sql`f.identity_id = ${text}::uuid` : isNamed(text)} limit ${hostsMax}
    )
    select identity_id as id, identity from host
    union all select c.id, null from host join certificate c using (identity_id)
    union all select id, null from certificate where fingerprint_sha256 = ${fingerprint}::bytea
    union all select id, null from certificate where serial_number = ${serial}
    union all select id, null from collector_config where name = ${text} or config_hash like ${hash}
    union all select id, null from enrollment_policy where name = ${text}
    union all select id, null from watch where name = ${text}
    union all select id, null from bootstrap_token where token_prefix = ${text}
    union all select user_id, null from person where primary_email = ${text}`);
  const actorIds = rows.flatMap(({ identity }) => (identity === null ? [] : [identity]));
  return { targetIds: [text, ...new Set(rows.map(({ id }) => id))], actorIds };
};
