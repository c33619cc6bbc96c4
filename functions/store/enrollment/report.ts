import {
  and,
  eq,
  getTableColumns,
  ilike,
  isNotNull,
  isNull,
  lte,
  type SQL,
  sql,
} from "drizzle-orm";
import { bootstrapToken, enrollmentPolicy } from "#drizzle/schema/enrollment.ts";
import { person } from "#drizzle/schema/operator.ts";
import { type PolicyState, type TokenState, tokenStates } from "#proto/operator/enrollment.ts";
import type { Executor } from "../database/database.ts";
import {
  anyOf,
  asDate,
  orNull,
  type Paged,
  type PageRequest,
  type RowOf,
  readOne,
  readRows,
  selectPage,
  substring,
  texts,
  timestamptz,
} from "../database/statements.ts";
import type { PolicyRow, TokenRow } from "./policies.ts";

/** Tokens by state. */
type TokenCounts = Record<TokenState, number>;

/** Returns the state of a token, apart from its policy. Agrees with `checkTokenUse`, which decides on a use. */
const tokenStateAt = (now: Date): SQL<TokenState> => sql<TokenState>`case
  when ${bootstrapToken.revokedAt} is not null then 'revoked'
  when ${bootstrapToken.expiresAt} <= ${timestamptz(now)} then 'expired'
  when ${enrollmentPolicy.frozenAt} is not null then 'policy_frozen'
  when ${bootstrapToken.maxUses} > 0 and ${bootstrapToken.useCount} >= ${bootstrapToken.maxUses} then 'exhausted'
  else 'active' end`;

const noTokens: TokenCounts = { revoked: 0, expired: 0, policy_frozen: 0, exhausted: 0, active: 0 };

/** Counts the bootstrap tokens of these policies, or of all, by policy and state. */
const countTokens = async (
  db: Executor,
  now: Date,
  policyIds?: readonly string[],
): Promise<ReadonlyMap<string, TokenCounts>> => {
  const rows = await db
    .select({
      policyId: bootstrapToken.policyId,
      state: tokenStateAt(now).as("state"),
      tokens: sql<number>`count(*)::int`,
    })
    .from(bootstrapToken)
    .innerJoin(enrollmentPolicy, eq(enrollmentPolicy.id, bootstrapToken.policyId))
    .where(
      and(
        isNull(bootstrapToken.attestation),
        policyIds && anyOf(bootstrapToken.policyId, policyIds),
      ),
    )
    .groupBy(sql`1`, sql`2`);
  const counts = new Map<string, TokenCounts>();
  for (const { policyId, state, tokens } of rows)
    counts.set(policyId, { ...(counts.get(policyId) ?? noTokens), [state]: tokens });
  return counts;
};

/** A policy, the email of its creator, and its tokens by state. */
export interface ListedPolicyRow extends PolicyRow {
  createdByEmail: string | null;
  tokens: TokenCounts;
}

/** Selects policies; an absent property does not filter. */
export interface PolicyFilter {
  state?: PolicyState | undefined;
  /** Part of the name, in any case. */
  text?: string | undefined;
}

/** Returns one page of the policies with their tokens by state. */
export const listPolicies = async (
  db: Executor,
  now: Date,
  { state, text }: PolicyFilter,
  page: PageRequest,
): Promise<Paged<ListedPolicyRow>> => {
  const query = db
    .select({ ...getTableColumns(enrollmentPolicy), createdByEmail: person.primaryEmail })
    .from(enrollmentPolicy)
    .leftJoin(person, eq(person.userId, enrollmentPolicy.createdBy));
  const { rows, next } = await selectPage(query, enrollmentPolicy.id, page, [
    state &&
      (state === "frozen"
        ? isNotNull(enrollmentPolicy.frozenAt)
        : isNull(enrollmentPolicy.frozenAt)),
    text === undefined ? undefined : ilike(enrollmentPolicy.name, substring(text)),
  ]);
  const tokens = await countTokens(
    db,
    now,
    rows.map(({ id }) => id),
  );
  return { rows: rows.map((row) => ({ ...row, tokens: tokens.get(row.id) ?? noTokens })), next };
};

/** A token without the hash of its value, its state, its policy's name and the email of its creator. */
export interface ListedTokenRow extends Omit<TokenRow, "tokenSha256" | "attestation"> {
  state: TokenState;
  policyName: string;
  createdByEmail: string | null;
}

/** Selects tokens; an absent property does not filter. */
export interface TokenFilter {
  /** Any of these. */
  states?: readonly TokenState[] | undefined;
  policyId?: string | undefined;
  /** Those that expire by then. */
  expireBy?: Date | undefined;
}

/** Returns one page of the bootstrap tokens of all policies. */
export const listAllTokens = (
  db: Executor,
  now: Date,
  { states, policyId, expireBy }: TokenFilter,
  page: PageRequest,
): Promise<Paged<ListedTokenRow>> => {
  const { tokenSha256: _, attestation, ...columns } = getTableColumns(bootstrapToken);
  const state = tokenStateAt(now);
  const query = db
    .select({
      ...columns,
      state: state.as("state"),
      policyName: enrollmentPolicy.name,
      createdByEmail: person.primaryEmail,
    })
    .from(bootstrapToken)
    .innerJoin(enrollmentPolicy, eq(enrollmentPolicy.id, bootstrapToken.policyId))
    .leftJoin(person, eq(person.userId, bootstrapToken.createdBy));
  return selectPage(query, bootstrapToken.id, page, [
    isNull(attestation),
    states && sql`${state} = any(${texts(states)})`,
    policyId === undefined ? undefined : eq(bootstrapToken.policyId, policyId),
    expireBy && lte(bootstrapToken.expiresAt, expireBy),
  ]);
};

/** Rejected enrollments for one reason under one policy. */
type RefusalGroupRow = RowOf<typeof refusalGroup>;
const refusalGroup = {
  reason: String,
  policyId: orNull(String),
  policyName: orNull(String),
  events: Number,
  refused: Number,
  lastAt: asDate,
  lastAddress: orNull(String),
};

/**
 * Groups the rejected enrollments of a period by reason and policy. The first refusal of an address, reason and minute has an event; later
 * ones share one, whose count includes the first and which has no policy.
 */
export const groupRefusals = (
  db: Executor,
  { since, until }: { since: Date; until: Date },
): Promise<RefusalGroupRow[]> =>
  readRows(
    db,
    refusalGroup,
    sql`
    select r.reason, p.id as policy_id, p.name as policy_name, r.events, r.refused, r.last_at, r.last_address
    from (
      select coalesce(reason, '') as reason, details->>'policy_id' as policy_id, count(*)::int as events,
        sum(coalesce((details->>'count')::int - 1, 1))::int as refused,
        max(coalesce((details->>'last_at')::timestamptz, occurred_at)) as last_at,
        (array_agg(coalesce(remote_addr, target_id) order by occurred_at desc, id desc))[1] as last_address
      from audit_event
      where action = 'collector.enroll' and outcome = 'failure' and occurred_at >= ${timestamptz(since)}
        and occurred_at < ${timestamptz(until)}
      group by 1, 2
    ) r left join enrollment_policy p on p.id::text = r.policy_id
    order by r.refused desc, r.reason, p.name nulls last`,
  );

/** Counts policies and tokens by state. */
export const countEnrollment = async (
  db: Executor,
  now: Date,
): Promise<{ policies: Record<PolicyState, number>; tokens: TokenCounts }> => {
  const [policies, byPolicy] = await Promise.all([
    readOne(
      db,
      { active: Number, frozen: Number },
      sql`select count(*) filter (where frozen_at is null) as active, count(frozen_at) as frozen from enrollment_policy`,
    ),
    countTokens(db, now),
  ]);
  const sum = (state: TokenState) =>
    [...byPolicy.values()].reduce((total, counts) => total + counts[state], 0);
  return {
    policies,
    tokens: Object.fromEntries(tokenStates.map((state) => [state, sum(state)])) as TokenCounts,
  };
};
