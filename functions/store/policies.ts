import { and, eq, isNull, sql } from "drizzle-orm";
import { bootstrapToken, enrollmentPolicy } from "../../drizzle/schema/enrollment.ts";
import { groupCalls } from "../../kit/group-calls.ts";
import { singleFlight } from "../../kit/single-flight.ts";
import type { Executor } from "./database.ts";
import { canRetryIndividually } from "./database-problem.ts";
import { tooManyWaiting } from "./group-transactions.ts";
import { anyOf, type Paged, type PageRequest, paged, pageOf } from "./query-parts.ts";

/** An enrollment policy's row. */
export type PolicyRow = typeof enrollmentPolicy.$inferSelect;

/** Inserts a policy. Returns undefined if its name is taken. */
export const insertPolicy = async (
  db: Executor,
  row: typeof enrollmentPolicy.$inferInsert,
): Promise<PolicyRow | undefined> => {
  const [inserted] = await db
    .insert(enrollmentPolicy)
    .values(row)
    .onConflictDoNothing({ target: enrollmentPolicy.name })
    .returning();
  return inserted;
};

/** Finds a policy and locks its row until the transaction ends. Limits, freezing and issuing are decided under this lock. */
export const lockPolicy = async (db: Executor, id: string): Promise<PolicyRow | undefined> => {
  const [row] = await db.select().from(enrollmentPolicy).where(eq(enrollmentPolicy.id, id)).for("no key update");
  return row;
};

/** Marks a policy frozen. */
export const updatePolicyFrozen = async (db: Executor, id: string, frozenAt: Date): Promise<void> => {
  await db.update(enrollmentPolicy).set({ frozenAt }).where(eq(enrollmentPolicy.id, id));
};

/** Finds policies and locks them in the order of their ids, so that groups cannot deadlock. */
export const lockPolicies = async (db: Executor, ids: readonly string[]): Promise<Map<string, PolicyRow>> => {
  const { id } = enrollmentPolicy;
  const rows = await db.select().from(enrollmentPolicy).where(anyOf(id, ids)).orderBy(id).for("no key update");
  return new Map(rows.map((row) => [row.id, row]));
};

/** Adds to the counts of first enrollments. Lock the policies first. */
export const addEnrollments = async (
  db: Executor,
  counts: readonly { id: string; enrollments: number }[],
): Promise<void> => {
  if (counts.length === 0) return;
  await db.execute(sql`update enrollment_policy p set enrollment_count = p.enrollment_count + n.enrollments
    from json_to_recordset(${JSON.stringify(counts)}::json) as n (id uuid, enrollments bigint) where p.id = n.id`);
};

/** Finds a policy. */
export const findPolicy = async (db: Executor, id: string): Promise<PolicyRow | undefined> => {
  const [row] = await db.select().from(enrollmentPolicy).where(eq(enrollmentPolicy.id, id));
  return row;
};

/** A bootstrap token's row. */
export type TokenRow = typeof bootstrapToken.$inferSelect;

/** Inserts a token. */
export const insertToken = async (db: Executor, row: typeof bootstrapToken.$inferInsert): Promise<void> => {
  await db.insert(bootstrapToken).values(row);
};

/** What decides, before the body of a request is read, whether its token may enroll. */
export interface PresentedToken {
  token: Pick<TokenRow, "id" | "allowedSourceCidrs" | "maxUses" | "useCount" | "expiresAt" | "revokedAt">;
  policy: Pick<PolicyRow, "id" | "allowedSourceCidrs" | "frozenAt">;
}

/**
 * Creates a function that finds the token with a hash, and its policy. Concurrent calls share statements (see `groupCalls`), those with
 * one hash a result.
 */
export const createTokenFinder = (db: Executor): ((tokenSha256: Uint8Array) => Promise<PresentedToken | undefined>) => {
  const keyOf = (tokenSha256: Uint8Array) => tokenSha256.toHex();
  const find = groupCalls<Uint8Array, PresentedToken | undefined>({
    run: (hashes) => findTokensByHash(db, hashes),
    keyOf,
    concurrency: 2,
    itemsMax: 128,
    waiting: tooManyWaiting,
    isolate: canRetryIndividually,
  });
  return singleFlight(find, keyOf);
};

const findTokensByHash = async (
  db: Executor,
  hashes: readonly Uint8Array[],
): Promise<(PresentedToken | undefined)[]> => {
  const { id, tokenSha256, allowedSourceCidrs, maxUses, useCount, expiresAt, revokedAt } = bootstrapToken;
  const policy = {
    id: enrollmentPolicy.id,
    allowedSourceCidrs: enrollmentPolicy.allowedSourceCidrs,
    frozenAt: enrollmentPolicy.frozenAt,
  };
  const rows = await db
    .select({ tokenSha256, token: { id, allowedSourceCidrs, maxUses, useCount, expiresAt, revokedAt }, policy })
    .from(bootstrapToken)
    .innerJoin(enrollmentPolicy, eq(policy.id, bootstrapToken.policyId))
    .where(anyOf(tokenSha256, hashes));
  const found = new Map(rows.map((row) => [row.tokenSha256.toHex(), row]));
  return hashes.map((hash) => found.get(hash.toHex()));
};

/** Finds the oldest policy that is not frozen. */
export const findOldestActivePolicy = async (db: Executor): Promise<PolicyRow | undefined> => {
  const { id, frozenAt } = enrollmentPolicy;
  const [row] = await db.select().from(enrollmentPolicy).where(isNull(frozenAt)).orderBy(id).limit(1);
  return row;
};

/** Finds the token of a policy with this hash. */
export const findTokenOfPolicy = async (
  db: Executor,
  policyId: string,
  tokenSha256: Uint8Array,
): Promise<TokenRow | undefined> => {
  const isIt = and(eq(bootstrapToken.tokenSha256, tokenSha256), eq(bootstrapToken.policyId, policyId));
  const [row] = await db.select().from(bootstrapToken).where(isIt);
  return row;
};

/** Finds a token and locks its row until the transaction ends. */
export const lockToken = async (db: Executor, id: string): Promise<TokenRow | undefined> => {
  const [row] = await db.select().from(bootstrapToken).where(eq(bootstrapToken.id, id)).for("no key update");
  return row;
};

/** Marks a token revoked. */
export const updateTokenRevoked = async (db: Executor, id: string, revokedAt: Date): Promise<void> => {
  await db.update(bootstrapToken).set({ revokedAt }).where(eq(bootstrapToken.id, id));
};

/** Finds tokens and locks them in the order of their ids. Lock their policies first. */
export const lockTokens = async (db: Executor, ids: readonly string[]): Promise<Map<string, TokenRow>> => {
  const { id } = bootstrapToken;
  const rows = await db.select().from(bootstrapToken).where(anyOf(id, ids)).orderBy(id).for("no key update");
  return new Map(rows.map((row) => [row.id, row]));
};

/** Uses of one token. */
export interface TokenUses {
  id: string;
  uses: number;
  /** The address of the last one. */
  address: string;
}

/** Adds to the counts of uses and stores the last ones. Lock the tokens first. */
export const addTokenUses = async (db: Executor, uses: readonly TokenUses[], at: Date): Promise<void> => {
  if (uses.length === 0) return;
  await db.execute(sql`update bootstrap_token t
    set use_count = t.use_count + n.uses, last_used_at = ${at.toISOString()}::timestamptz, last_used_address = n.address
    from json_to_recordset(${JSON.stringify(uses)}::json) as n (id uuid, uses bigint, address text) where t.id = n.id`);
};

/** Returns one page of the tokens of a policy. */
export const listTokens = async (db: Executor, policyId: string, page: PageRequest): Promise<Paged<TokenRow>> => {
  const { where, orderBy, limit } = pageOf(bootstrapToken.id, page, [eq(bootstrapToken.policyId, policyId)]);
  return paged(await db.select().from(bootstrapToken).where(where).orderBy(orderBy).limit(limit), page);
};
