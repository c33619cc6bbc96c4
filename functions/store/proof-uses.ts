import { type SQL, sql } from "drizzle-orm";
import type { ProofPurpose } from "../../drizzle/schema/certificate.ts";
import type { Executor } from "./database.ts";

/** A proof that verified, about to be used. */
export interface ProofUse {
  /** SHA-256 of the certificate's DER, lowercase hex. */
  fingerprintSha256: string;
  /** Milliseconds since the epoch. */
  sentAt: number;
  /** By core's clock: the certificate's dates. */
  expired: boolean;
}

/** What the database makes of a proof: the problem's code, or `admitted`. */
export type AdmissionOutcome =
  | "admitted"
  | "certificate_unknown"
  | "identity_revoked"
  | "certificate_revoked"
  | "certificate_expired"
  | "certificate_replaced"
  | "stale_request"
  | "rate_limited";

/** The decision on one proof. */
export interface Admission {
  outcome: AdmissionOutcome;
  /** Null when the certificate is unknown; so is the identity's. */
  certificateId: string | null;
  identityId: string | null;
  /** With `stale_request`: the newest `sent_at` that was accepted. */
  lastSentAt: number | null;
  /** The certificate was never used before. */
  isFirstUse: boolean;
}

/** A row of `verdict` as the driver gives it. */
export interface VerdictRow extends Record<string, unknown> {
  outcome: AdmissionOutcome;
  certificate_id: string | null;
  identity_id: string | null;
  last_sent_at: number | null;
  first_use: boolean;
}

/** Accepted requests of one certificate and purpose in a minute. */
const minuteCountMax = 6;
const minuteMs = 60_000;

/**
 * The common table expressions that decide on proofs and use them up, for statements that do their work in the same breath. They
 * read `input (fingerprint, sent_at, expired, …)`, one row per certificate at most, and give `verdict`: all columns of `input`,
 * those of `VerdictRow`, and the certificate's times. Replay is impossible
 * even between two statements at once: `used` writes only a `sent_at` above the stored one, under the row's lock; who loses that
 * race is `stale_request`. Rows are written in the order of certificates, so that statements cannot deadlock.
 */
export const verdictOf = (purpose: ProofPurpose, now: number): SQL => {
  const at = sql`${new Date(now).toISOString()}::timestamptz`;
  const minuteAgo = sql`${new Date(now - minuteMs).toISOString()}::timestamptz`;
  return sql`known as (
    select input.*, c.id as certificate_id, c.identity_id, c.first_used_at is null as first_use,
      c.renew_after, c.not_after, c.issued_at, u.last_sent_at as newest_sent_at,
      case
        when c.id is null then 'certificate_unknown'
        when i.revoked_at is not null then 'identity_revoked'
        when c.status = 'revoked' then 'certificate_revoked'
        when input.expired then 'certificate_expired'
        when c.status = 'replaced' then 'certificate_replaced'
        when u.last_sent_at >= input.sent_at then 'stale_request'
        when u.minute_count >= ${minuteCountMax} and u.minute_started_at > ${minuteAgo} and u.minute_started_at <= ${at}
          then 'rate_limited'
        else 'admitted'
      end as judgement
    from input
    left join certificate c on c.fingerprint_sha256 = decode(input.fingerprint, 'hex')
    left join collector_identity i on i.id = c.identity_id
    left join proof_use u on u.certificate_id = c.id and u.purpose = ${purpose}
  ), used as (
    insert into proof_use as u (certificate_id, purpose, last_sent_at, minute_started_at, minute_count)
    select certificate_id, ${purpose}, sent_at, ${at}, 1 from known where judgement = 'admitted' order by certificate_id
    on conflict (certificate_id, purpose) do update set
      last_sent_at = excluded.last_sent_at,
      minute_started_at = case when u.minute_started_at > ${minuteAgo} and u.minute_started_at <= ${at}
        then u.minute_started_at else excluded.minute_started_at end,
      minute_count = case when u.minute_started_at > ${minuteAgo} and u.minute_started_at <= ${at}
        then u.minute_count + 1 else 1 end
    where u.last_sent_at < excluded.last_sent_at
    returning certificate_id
  ), verdict as (
    select known.*,
      case when judgement = 'admitted' and used.certificate_id is null then 'stale_request' else judgement end as outcome,
      extract(epoch from case when judgement = 'admitted' then sent_at else newest_sent_at end)::float8 * 1000 as last_sent_at
    from known left join used on used.certificate_id = known.certificate_id
  )`;
};

/** The domain's view of a row of `verdict`. */
export const admissionOf = (row: VerdictRow): Admission => ({
  outcome: row.outcome,
  certificateId: row.certificate_id,
  identityId: row.identity_id,
  lastSentAt: row.last_sent_at === null ? null : Math.round(row.last_sent_at),
  isFirstUse: row.first_use,
});

/** Decides on one proof and uses it up. */
export const useProof = async (
  db: Executor,
  purpose: ProofPurpose,
  { fingerprintSha256, sentAt, expired }: ProofUse,
  now: number,
): Promise<Admission> => {
  const at = sql`${new Date(sentAt).toISOString()}::timestamptz`;
  const input = sql`select ${fingerprintSha256}::text as fingerprint, ${at} as sent_at, ${expired}::boolean as expired`;
  const rows = await db.execute<VerdictRow>(
    sql`with input as (${input}), ${verdictOf(purpose, now)}
    select outcome, certificate_id, identity_id, last_sent_at, first_use from verdict`,
  );
  const [row] = rows;
  if (row === undefined) throw new Error("no verdict");
  return admissionOf(row);
};
