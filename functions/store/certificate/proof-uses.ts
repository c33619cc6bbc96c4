import { type SQL, sql } from "drizzle-orm";
import { type Clock, possibleTimes } from "#kit/clock.ts";
import { clockSkewMsMax, type ProofPurpose } from "#proto/management/proof.ts";
import type { AgentKind } from "#proto/values.ts";
import type { Executor } from "../database/database.ts";
import { prepareStatement, timestamptz } from "../database/statements.ts";
import type { Succession } from "./certificates.ts";

/** A verified proof, not used yet. */
export interface ProofUse {
  /** SHA-256 of the certificate's DER, lowercase hex. */
  fingerprintSha256: string;
  /** Milliseconds since the epoch. */
  sentAt: number;
  /** The certificate has expired by core's clock. */
  expired: boolean;
}

/** `admitted`, or the code of the problem. */
export type AdmissionOutcome =
  | "admitted"
  | "certificate_unknown"
  | "identity_revoked"
  | "certificate_revoked"
  | "certificate_expired"
  | "certificate_replaced"
  | "agent_not_allowed"
  | "stale_request"
  | "rate_limited";

/** The decision on one proof. */
export interface ProofAdmission {
  outcome: AdmissionOutcome;
  /** Null, with `identityId`, when the certificate is unknown. */
  certificateId: string | null;
  identityId: string | null;
  /** With `stale_request`: the newest accepted `sent_at`. */
  lastSentAt: number | null;
  /** The certificate has not been used before. */
  isFirstUse: boolean;
}

/** A row of `decision` as the driver returns it. */
export interface DecisionRow extends Record<string, unknown> {
  outcome: AdmissionOutcome;
  certificate_id: string | null;
  identity_id: string | null;
  last_sent_at: number | null;
  first_use: boolean;
}

/**
 * Accepted requests of one certificate and purpose in any 60 s. Beyond them, one is accepted each spacing, so that the limit cannot make a
 * host stale. A successor inherits the count of its predecessor, see `inheritProofUses`.
 */
export const minuteCountMax = 6;

/** Returns the spacing of requests that core expects for an interval. */
export const spacingSecondsOf = (intervalSeconds = Number.POSITIVE_INFINITY): number =>
  Math.min(60 / minuteCountMax, intervalSeconds / 2);

/** Hosts whose agent is no svc-collector prove their key for these alone. */
const ofAnyAgent: readonly ProofPurpose[] = ["renew", "ca_bundle"];

/** The times by which a statement decides on proofs. */
interface ProofTimes {
  at: SQL;
  /**
   * The latest `sent_at` that core accepts now. A later stored one was accepted while a clock was wrong, and is ignored, or the host could
   * send nothing until then. A replay from before that hour is still rejected, because core has accepted a request since it was signed.
   */
  plausibleUntil: SQL;
  /** A request is accepted if there was none since then. */
  spacedSince: SQL;
}

/** Returns the latest plausible `sent_at`, in milliseconds. */
export const plausibleUntil = (clock: Pick<Clock, "now" | "machineNow">): number =>
  Math.max(...possibleTimes(clock)) + clockSkewMsMax;

/**
 * Returns the common table expressions that decide on proofs at `at` and mark them used, for a statement that does its work with them. They
 * read `input (fingerprint, sent_at, expired, …)`, at most one row per certificate, and define `decision`: all columns of `input`, those of
 * `DecisionRow`, the certificate's times, and the identity's `reported_labels` and `enrolled_at`. Of two concurrent statements with one
 * proof, one is `stale_request`: `used` stores only a `sent_at` above the stored one, under the row's lock. Writes rows in the order of
 * certificates, so that statements cannot deadlock. Looks up each row by its key, whatever the planner knows of the tables: LATERAL with a
 * limit leaves no other plan.
 */
export const decideProofs = (
  purpose: ProofPurpose,
  { at, plausibleUntil, spacedSince }: ProofTimes,
): SQL =>
  sql`known as (
    select input.*, c.id as certificate_id, c.identity_id, c.first_used_at is null as first_use, i.reported_labels, i.enrolled_at,
      c.renew_after, c.not_after, c.issued_at, u.last_sent_at as newest_sent_at,
      case
        when c.id is null then 'certificate_unknown'
        when i.revoked_at is not null then 'identity_revoked'
        when c.status = 'revoked' then 'certificate_revoked'
        when input.expired then 'certificate_expired'
        when c.status = 'replaced' then 'certificate_replaced'
        ${ofAnyAgent.includes(purpose) ? sql`` : sql`when i.agent <> 'svc-collector' then 'agent_not_allowed'`}
        when u.last_sent_at >= input.sent_at and (u.last_sent_at <= ${plausibleUntil}
          or exists (select from unnest(u.recent_at) accepted_at where accepted_at <= ${at} and accepted_at >= input.sent_at))
          then 'stale_request'
        when u.recent_at[1] > ${at} - interval '1 minute' and u.recent_at[1] <= ${at} and cardinality(u.recent_at) >= ${minuteCountMax}
            and u.recent_at[${minuteCountMax}] > ${spacedSince}
          then 'rate_limited'
        else 'admitted'
      end as provisional
    from input
    left join lateral (
      select id, identity_id, status, first_used_at, renew_after, not_after, issued_at from certificate
      where fingerprint_sha256 = decode(input.fingerprint, 'hex') limit 1
    ) c on true
    left join lateral (select revoked_at, agent, reported_labels, enrolled_at from collector_identity where id = c.identity_id limit 1) i on true
    left join lateral (
      select last_sent_at, recent_at from proof_use where certificate_id = c.id and purpose = ${purpose} limit 1
    ) u on true
  ), used as (
    insert into proof_use as u (certificate_id, purpose, last_sent_at, recent_at)
    select certificate_id, ${purpose}, sent_at, array[${at}] from known where provisional = 'admitted' order by certificate_id
    on conflict (certificate_id, purpose) do update set
      last_sent_at = excluded.last_sent_at,
      recent_at = (u.recent_at || excluded.recent_at)[greatest(1, cardinality(u.recent_at) + 2 - ${minuteCountMax}):]
    where u.last_sent_at < excluded.last_sent_at or u.last_sent_at > ${plausibleUntil}
    returning certificate_id
  ), decision as (
    select known.*,
      case when provisional = 'admitted' and used.certificate_id is null then 'stale_request' else provisional end as outcome,
      extract(epoch from case when provisional = 'admitted' then sent_at else newest_sent_at end)::float8 * 1000 as last_sent_at
    from known left join used on used.certificate_id = known.certificate_id
  )`;

/** The decision on a certificate whose key TLS has verified, without a proof. */
export interface CertificateDecision {
  certificateId: string | null;
  identityId: string | null;
  /** As `decideProofs` decides, except for the expiry. */
  outcome: Extract<
    AdmissionOutcome,
    "admitted" | `${string}_${"unknown" | "revoked" | "replaced"}`
  >;
  /** Null with `identityId`. */
  agent: AgentKind | null;
  /** The certificate has not been used before. */
  isFirstUse: boolean;
  /** `renew_after` has passed, and the jitter that collectors add, a tenth of the lifetime. */
  renewNow: boolean;
}

/** Prepares the statement that decides on certificates by SHA-256 fingerprint (lowercase hex), in their order. */
export const prepareCertificateDecisions = (db: Executor) => {
  const run = prepareStatement<CertificateDecision & Record<string, unknown>>(
    db,
    decideCertificates,
  );
  return (fingerprints: readonly string[], now: number): Promise<readonly CertificateDecision[]> =>
    run({ fingerprints: JSON.stringify(fingerprints), at: new Date(now).toISOString() });
};

const decideCertificates = sql`
  select c.id as "certificateId", c.identity_id as "identityId", i.agent, c.first_used_at is null as "isFirstUse",
    case
      when c.id is null then 'certificate_unknown'
      when i.revoked_at is not null then 'identity_revoked'
      when c.status = 'revoked' then 'certificate_revoked'
      when c.status = 'replaced' then 'certificate_replaced'
      else 'admitted'
    end as outcome,
    coalesce(c.renew_after + (c.not_after - c.issued_at) / 10 < ${sql.placeholder("at")}::timestamptz, false) as "renewNow"
  from json_array_elements_text(${sql.placeholder("fingerprints")}::json) with ordinality as input (fingerprint, place)
  left join lateral (
    select id, identity_id, status, first_used_at, renew_after, not_after, issued_at from certificate
    where fingerprint_sha256 = decode(input.fingerprint, 'hex') limit 1
  ) c on true
  left join lateral (select revoked_at, agent from collector_identity where id = c.identity_id limit 1) i on true
  order by place`;

/** Converts a row of `decision`. */
export const admissionOf = (row: DecisionRow): ProofAdmission => ({
  outcome: row.outcome,
  certificateId: row.certificate_id,
  identityId: row.identity_id,
  lastSentAt: row.last_sent_at === null ? null : Math.round(row.last_sent_at),
  isFirstUse: row.first_use,
});

/** Decides on one proof and marks it used. */
export const useProof = async (
  db: Executor,
  purpose: ProofPurpose,
  { fingerprintSha256, sentAt, expired }: ProofUse,
  clock: Pick<Clock, "now" | "machineNow">,
): Promise<ProofAdmission> => {
  const at = (ms: number) => timestamptz(ms);
  const input = sql`select ${fingerprintSha256}::text as fingerprint, ${at(sentAt)} as sent_at, ${expired}::boolean as expired`;
  const [row] = await db.execute<DecisionRow>(
    sql`with input as (${input}), ${decideProofs(purpose, {
      at: at(clock.now()),
      plausibleUntil: at(plausibleUntil(clock)),
      spacedSince: at(clock.now() - spacingSecondsOf() * 1000),
    })}
    select outcome, certificate_id, identity_id, last_sent_at, first_use from decision`,
  );
  if (row === undefined) throw new Error("the statement returned no decision");
  return admissionOf(row);
};

/**
 * Counts the newest requests of predecessors as their successors', so that a renewal does not reset the rate limit; renewals have a limit
 * of their own. Call it once for each successor, at its first use: from then on core rejects the predecessor.
 */
export const inheritProofUses = async (db: Executor, successions: readonly Succession[]) => {
  const pairs = JSON.stringify(successions);
  await db.execute(sql`
    insert into proof_use as u (certificate_id, purpose, last_sent_at, recent_at)
    select s.id, p.purpose, 'epoch', p.recent_at
    from json_to_recordset(${pairs}::json) as s (id uuid, "predecessorId" uuid)
    join proof_use p on p.certificate_id = s."predecessorId" and p.purpose <> 'renew'
    order by s.id
    on conflict (certificate_id, purpose) do update set
      recent_at = (select (array_agg(at order by at))[greatest(1, count(*) + 1 - ${minuteCountMax}):]
        from unnest(u.recent_at || excluded.recent_at) as at)`);
};
