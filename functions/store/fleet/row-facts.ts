/** What a row of the report has beside what decides on it: of now from the newest report and events, of the past from history. */
import { type SQL, sql } from "drizzle-orm";
import { type FleetRules, never, timestampAt } from "./rows.ts";

/** Parts of the statement of rows (report.ts), which joins the identity `i`, the certificate `c`, the report `h` and others. */
export interface RowFacts {
  /** Columns of the hosts, for `columns`. */
  ofHosts: SQL;
  columns: SQL;
  /** Whether the newest report and the losses of a restored database belong to the rows. */
  isNewest: SQL;
}

/** Returns the facts of the rows that rules decide on. */
export const rowFactsOf = ({ past, now }: FleetRules): RowFacts =>
  past === undefined ? newestFacts : factsAt(now);

const newestFacts: RowFacts = {
  ofHosts: sql`enrolled_at`,
  columns: sql`i.revoked_at, i.last_auth_failure_at, i.last_auth_failure_reason, coalesce(h.hostname, i.hostname) as hostname,
    e.last_envelope_at, c.status as certificate_status, c.revoked_at as certificate_revoked_at, h.running_config_hash,
    h.last_known_good_config_hash, h.config_invalid_since, h.queue_at_risk_since, h.renewal_failed_since, h.version_since,
    h.forwarder_connected`,
  isNewest: sql`true`,
};

/** Parts of the same statement: what core stored of the host on a day, and the budget that holds it, both as they are now. */
export const volumeOfRow = ({ past, now }: FleetRules): { columns: SQL; join: SQL } =>
  past
    ? {
        columns: sql`null::bigint as day_bytes, null::bigint as usual_bytes, null as hold`,
        join: sql``,
      }
    : {
        columns: sql`v.day_bytes, v.usual_bytes, held.hold`,
        join: sql`left join lateral (select day_bytes, usual_bytes from host_volume where host_id = i.identity limit 1) v on true
          left join lateral (select jsonb_build_object('budget', budget, 'since', since, 'until', until) as hold
            from held_host where host_id = i.identity and until > ${timestampAt(now)} limit 1) held on true`,
      };

/** A revocation that had happened by then. */
const revokedBy = (table: SQL, at: SQL): SQL =>
  sql`case when ${table}.revoked_at <= ${at} then ${table}.revoked_at end`;

/** Of the conditions that a host reported, the start of the first one is known. */
const sinceIf = (isFirst: SQL): SQL =>
  sql`case when f.condition_since > ${never} and ${isFirst} then f.condition_since end`;

const factsAt = (now: Date): RowFacts => {
  const at = timestampAt(now);
  return {
    ofHosts: sql`enrolled_at, nullif(hostname, '') as known_hostname, nullif(last_envelope_at, ${never}) as known_envelope_at,
      running_config, last_known_good_config, condition_since, version_since as known_version_since, config_invalid, renewal_failed,
      forwarder_connected as is_connected`,
    columns: sql`${revokedBy(sql`i`, at)} as revoked_at, null as last_auth_failure_at, null as last_auth_failure_reason,
      f.known_hostname as hostname, f.known_envelope_at as last_envelope_at,
      case when c.revoked_at <= ${at} then 'revoked' when c.replaced_at <= ${at} then 'replaced' else 'active' end as certificate_status,
      ${revokedBy(sql`c`, at)} as certificate_revoked_at, nullif(encode(f.running_config, 'hex'), '') as running_config_hash,
      nullif(encode(f.last_known_good_config, 'hex'), '') as last_known_good_config_hash,
      ${sinceIf(sql`f.config_invalid and not f.renewal_failed`)} as config_invalid_since,
      ${sinceIf(sql`not f.config_invalid and not f.renewal_failed`)} as queue_at_risk_since,
      ${sinceIf(sql`f.renewal_failed`)} as renewal_failed_since, f.known_version_since as version_since,
      case when f.last_heartbeat_at is not null then f.is_connected end as forwarder_connected`,
    isNewest: sql`false`,
  };
};
