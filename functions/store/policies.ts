import { eq, sql } from "drizzle-orm";
import { bootstrapToken, enrollmentPolicy } from "../../drizzle/schema/enrollment.ts";
import type { Executor } from "./database.ts";
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

/** Adds to the count of first enrollments. */
export const addEnrollments = async (db: Executor, id: string, enrollments: number): Promise<void> => {
  await db
    .update(enrollmentPolicy)
    .set({ enrollmentCount: sql`${enrollmentPolicy.enrollmentCount} + ${enrollments}` })
    .where(eq(enrollmentPolicy.id, id));
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

/** Finds the token with this hash, and its policy. */
export const findTokenByHash = async (
  db: Executor,
  tokenSha256: Uint8Array,
): Promise<{ token: TokenRow; policy: PolicyRow } | undefined> => {
  const [row] = await db
    .select({ token: bootstrapToken, policy: enrollmentPolicy })
    .from(bootstrapToken)
    .innerJoin(enrollmentPolicy, eq(enrollmentPolicy.id, bootstrapToken.policyId))
    .where(eq(bootstrapToken.tokenSha256, tokenSha256));
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

/** Adds to the count of uses and stores the last one. */
export const addTokenUses = async (
  db: Executor,
  id: string,
  { uses, at, address }: { uses: number; at: Date; address: string },
): Promise<void> => {
  await db
    .update(bootstrapToken)
    .set({ useCount: sql`${bootstrapToken.useCount} + ${uses}`, lastUsedAt: at, lastUsedAddress: address })
    .where(eq(bootstrapToken.id, id));
};

/** Returns one page of the tokens of a policy. */
export const listTokens = async (db: Executor, policyId: string, page: PageRequest): Promise<Paged<TokenRow>> => {
  const { where, orderBy, limit } = pageOf(bootstrapToken.id, page, [eq(bootstrapToken.policyId, policyId)]);
  return paged(await db.select().from(bootstrapToken).where(where).orderBy(orderBy).limit(limit), page);
};
