import { and, count, eq, gt, ilike, isNotNull, isNull, lte, or, sql } from "drizzle-orm";
import { collectorIdentity } from "#drizzle/schema/enrollment.ts";
import type { Labels } from "#proto/labels.ts";
import type { Executor } from "../database/database.ts";
import {
  anyOf,
  arrayLiteral,
  defineStatement,
  executePrepared,
  finderOf,
  hasRows,
  insertRows,
  listPage,
  lockerOf,
  type Paged,
  type PageRequest,
  readScalar,
  substring,
  timestamptz,
  updaterOf,
  uuids,
} from "../database/statements.ts";

/** A collector identity's row. */
export type IdentityRow = typeof collectorIdentity.$inferSelect;

/** The row that an enrollment writes: the database fills in the labels. */
export type EnrolledIdentity = Omit<IdentityRow, "reportedLabels" | "labelSetId">;

/**
 * Finds an identity by name and locks its row until the transaction ends. Foreign keys do not wait for the lock: heartbeats refer to the
 * row meanwhile.
 */
export const lockIdentityByName = lockerOf(collectorIdentity, collectorIdentity.identity);

/** Finds an identity and locks its row until the transaction ends. Lock it before any of its certificates, always in this order. */
export const lockIdentity = lockerOf(collectorIdentity);

const lockByIds = defineStatement(
  sql`select from collector_identity where id = any(${sql.placeholder("ids")}::uuid[]) order by id for no key update`,
);

/** Locks identities until the transaction ends, in the order of their ids. */
export const lockIdentities = async (db: Executor, ids: readonly string[]) => {
  await lockByIds(db, { ids: arrayLiteral(ids) });
};

/** Finds identities by name and locks them in the order of their ids. */
export const lockIdentitiesByName = async (
  db: Executor,
  names: readonly string[],
): Promise<Map<string, IdentityRow>> => {
  const { id, identity } = collectorIdentity;
  const found = db
    .select()
    .from(collectorIdentity)
    .where(anyOf(identity, names))
    .orderBy(id)
    .for("no key update");
  const rows = await found.prepare("lock_identities").execute();
  return new Map(rows.map((row) => [row.identity, row]));
};

/** Inserts identities. */
export const insertIdentities = async (db: Executor, rows: readonly EnrolledIdentity[]) => {
  await insertRows(db, collectorIdentity, rows);
};

/** Stores the policy, token, host and version with which an identity enrolled again. */
export const updateIdentityReenrolled = async (
  db: Executor,
  id: string,
  enrollment: Pick<
    IdentityRow,
    "policyId" | "tokenId" | "hostname" | "platform" | "collectorVersion" | "attestation"
  >,
) => {
  const { policyId, tokenId, hostname, platform, collectorVersion, attestation } = enrollment;
  const set = { policyId, tokenId, hostname, platform, collectorVersion, attestation };
  await db.update(collectorIdentity).set(set).where(eq(collectorIdentity.id, id));
};

/** Changes an identity. */
export const updateIdentity = updaterOf(collectorIdentity);

/** Counts the identities that first enrolled under a policy after `since`. */
export const countEnrolledSince = async (
  db: Executor,
  policyId: string,
  since: Date,
): Promise<number> => {
  const [row] = await db
    .select({ enrolled: count() })
    .from(collectorIdentity)
    .where(and(eq(collectorIdentity.policyId, policyId), gt(collectorIdentity.enrolledAt, since)))
    .prepare("count_enrolled_since")
    .execute();
  return row?.enrolled ?? 0;
};

/**
 * Counts the identities that first enrolled under these policies after `since`, up to a policy's hourly limit. Omits policies that stay below
 * it with `upcomingEnrollments` more, even if all their enrollments and reservations were recent: the usual case needs no count.
 */
export const countTowardsHourlyLimits = async (
  db: Executor,
  { policyIds, upcomingEnrollments }: { policyIds: readonly string[]; upcomingEnrollments: number },
  since: Date,
): Promise<Map<string, number>> => {
  const rows = await executePrepared<{ id: string; enrolled: number }>(
    db,
    sql`select p.id, (select count(*)::int from (
        select from collector_identity i where i.policy_id = p.id and i.enrolled_at > ${timestamptz(since)}
        limit p.max_enrollments_per_hour) recent) as enrolled
      from enrollment_policy p where p.id = any(${uuids(policyIds)}) and p.max_enrollments_per_hour > 0
        and p.enrollment_count + (select count(*) from enrollment_reservation r where r.policy_id = p.id) + ${upcomingEnrollments}::int
          > p.max_enrollments_per_hour`,
  );
  return new Map(rows.map(({ id, enrolled }) => [id, enrolled]));
};

/** Finds an identity. */
export const findIdentity = finderOf(collectorIdentity);

/** Finds an identity by name. */
export const findIdentityByName = finderOf(collectorIdentity, collectorIdentity.identity);

/**
 * Stores the labels that a host reports; null for none. The database merges them with those of the host's enrollment policy
 * (`drizzle/sql/label-sets.sql`).
 */
export const updateReportedLabels = async (
  db: Executor,
  { identityId, labels }: { identityId: string; labels: Labels | null },
) => {
  await db.execute(sql`update collector_identity set reported_labels = ${labels && JSON.stringify(labels)}::jsonb
    where id = ${identityId}::uuid and reported_labels is distinct from ${labels && JSON.stringify(labels)}::jsonb`);
};

/** Selects identities; an absent property does not filter. */
export interface IdentityFilter {
  /** Substring of identity, device id or hostname, in any case. */
  text?: string | undefined;
  status?: "active" | "revoked" | undefined;
  policyId?: string | undefined;
  tokenId?: string | undefined;
}

/** Returns one page of the identities. */
export const listIdentities = async (
  db: Executor,
  { text, status, policyId, tokenId }: IdentityFilter,
  page: PageRequest,
): Promise<Paged<IdentityRow>> => {
  const { identity, deviceId, hostname, revokedAt } = collectorIdentity;
  const matches = (pattern: string) =>
    or(ilike(identity, pattern), ilike(deviceId, pattern), ilike(hostname, pattern));
  return listPage(db, collectorIdentity, page, [
    text === undefined ? undefined : matches(substring(text)),
    status && (status === "active" ? isNull(revokedAt) : isNotNull(revokedAt)),
    policyId === undefined ? undefined : eq(collectorIdentity.policyId, policyId),
    tokenId === undefined ? undefined : eq(collectorIdentity.tokenId, tokenId),
  ]);
};

/** Stores an auth failure unless the identity's last one is newer than `ifBefore`. Returns the identity's id if it stored it. */
export const updateAuthFailure = async (
  db: Executor,
  {
    identity,
    reason,
    at,
    ifBefore,
  }: { identity: string; reason: string; at: Date; ifBefore: Date },
): Promise<string | undefined> => {
  const { lastAuthFailureAt } = collectorIdentity;
  const [row] = await db
    .update(collectorIdentity)
    .set({ lastAuthFailureAt: at, lastAuthFailureReason: reason })
    .where(
      and(
        eq(collectorIdentity.identity, identity),
        or(isNull(lastAuthFailureAt), lte(lastAuthFailureAt, ifBefore)),
      ),
    )
    .returning({ id: collectorIdentity.id });
  return row?.id;
};

/** Counts the hosts that are not revoked at `now`: neither their identity nor, without another active one, their certificate. */
export const countCollectors = (db: Executor, now: Date): Promise<number> =>
  readScalar(db, Number, sql`select count(*) from fleet where revoked_from > ${timestamptz(now)}`);

/** Records that an agent must restart, until core has sent the command. Returns false for a host without an agent that speaks OpAMP. */
export const updateRestartAsked = (db: Executor, identityId: string, at: number) =>
  hasRows(
    db.execute(sql`update opamp_agent set restart_asked_at = ${timestamptz(new Date(at))}
      where identity_id = ${identityId} returning 1`),
  );

/** The channel on which each replica listens, to check its open ingest streams again immediately. */
export const revocationChannel = "svc_revocation";

/** Notifies each replica, when the transaction commits, that this identity or one of its certificates was revoked. */
export const notifyRevocation = async (db: Executor, identity: string) => {
  await db.execute(sql`select pg_notify(${revocationChannel}, ${identity})`);
};

/** The channel of directives to hosts. */
export const directiveChannel = "svc_directive";

const directiveActions = ["config_assigned", "renew_now", "report_now", "send_diag"] as const;

/** What core asks some hosts to do. */
export interface HostDirective {
  action: (typeof directiveActions)[number];
  identityIds: readonly string[];
  /** Each host acts at a random time within it. */
  spreadMs: number;
  /** Only of `send_diag`. */
  requestId?: string;
}

/** Hosts in a notification, which PostgreSQL limits to 8,000 bytes. */
const hostsMax = 200;
const spreadMsMax = 600_000;
/** Fewer than one core serves. */
const hostsPerSecond = 1_000;

/** Returns the time over which so many hosts should act. A single host acts immediately. */
export const spreadOf = (hosts: number): number =>
  hosts <= 1 ? 0 : Math.ceil((hosts * 1_000) / hostsPerSecond);

/** Notifies hosts of a directive when the transaction commits. A lost notification does no harm: the next heartbeat's response repeats it. */
export const notifyHosts = async (
  db: Executor,
  { action, identityIds, spreadMs, requestId }: HostDirective,
) => {
  for (let first = 0; first < identityIds.length; first += hostsMax) {
    const hosts = identityIds.slice(first, first + hostsMax).join();
    const fields = [action, spreadMs, hosts, requestId].filter((field) => field !== undefined);
    const payload = fields.join(" ");
    await db.execute(sql`select pg_notify(${directiveChannel}, ${payload})`);
  }
};

/** Parses the payload of a notification. Returns undefined for one that it does not know, as of a later version. */
export const readDirective = (payload: string): HostDirective | undefined => {
  const [action, spread, ids, requestId] = payload.split(" ");
  const known = directiveActions.find((name) => name === action);
  const spreadMs = Number(spread);
  if (known === undefined || !ids || !Number.isSafeInteger(spreadMs) || spreadMs < 0)
    return undefined;
  if ((known === "send_diag") !== (requestId !== undefined)) return undefined;
  const identityIds = ids.split(",");
  return {
    action: known,
    spreadMs: Math.min(spreadMs, spreadMsMax),
    identityIds,
    ...(requestId ? { requestId } : {}),
  };
};
