import type { SqlClient } from "#functions/store/database/pool/sql-client.ts";

/** The durations by which a host is backdated. */
export interface Age {
  identity: string;
  /** Days since its enrollment, and since its certificates were issued. */
  enrolledDays: number;
  certificateDays: number;
  /** Whether a successor keeps its dates. */
  keepsSuccessor: boolean;
  /** Seconds since its last heartbeat and envelope. */
  silentSeconds: number;
}

/**
 * Backdates hosts in core's database: enrollment, certificates, the last heartbeat and envelope. Only rows change; the certificates
 * themselves and the audit log keep their times.
 */
export const backdate = (sql: SqlClient, ages: readonly Age[]): Promise<unknown> =>
  sql.begin(async (tx) => {
    await tx`create temporary table age on commit drop as select i.id, age.identity, "keepsSuccessor" as keeps_successor,
        make_interval(secs => 86400 * "enrolledDays") as enrolled, make_interval(secs => 86400 * "certificateDays") as issued,
        make_interval(secs => "silentSeconds") as silent
      from jsonb_to_recordset(${JSON.stringify(ages)}::text::jsonb) as age(identity text, "enrolledDays" float8,
        "certificateDays" float8, "keepsSuccessor" boolean, "silentSeconds" float8)
      join collector_identity i on i.identity = age.identity`;
    await tx`update collector_identity i set enrolled_at = enrolled_at - enrolled from age where age.id = i.id`;
    await tx`update certificate c set not_before = not_before - issued, not_after = not_after - issued,
        renew_after = renew_after - issued, issued_at = issued_at - issued
      from age where age.id = c.identity_id and (c.predecessor_id is null or not keeps_successor)`;
    await tx`update collector_health h set last_heartbeat_at = last_heartbeat_at - silent from age where age.id = h.identity_id`;
    await tx`update fleet_status f set last_heartbeat_at = last_heartbeat_at - silent, last_envelope_at = last_envelope_at - silent
      from age where age.id = f.identity_id`;
    await tx`update ingest_host set last_envelope_at = last_envelope_at - silent from age where age.identity = host_id`;
    // No trigger watches these dates, as core never changes them.
    await tx`select fleet_host_refresh(array_agg(id)) from age`;
  });
