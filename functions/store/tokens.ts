import { eq, sql } from "drizzle-orm";
import { bootstrapToken, enrollmentPolicy } from "../../drizzle/schema/enrollment.ts";
import { anyOf } from "./any-of.ts";
import type { Executor } from "./database.ts";
import { type Page, type Paged, paged, pageOf } from "./page.ts";
import type { PolicyRow } from "./policies.ts";

/** A bootstrap token's row. */
export type TokenRow = typeof bootstrapToken.$inferSelect;

/** Inserts a token. */
export const insertToken = async (db: Executor, row: typeof bootstrapToken.$inferInsert): Promise<void> => {
  await db.insert(bootstrapToken).values(row);
};

/** The token with this hash, and its policy. */
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

/** The token, its row locked until the transaction ends. */
export const lockToken = async (db: Executor, id: string): Promise<TokenRow | undefined> => {
  const [row] = await db.select().from(bootstrapToken).where(eq(bootstrapToken.id, id)).for("no key update");
  return row;
};

/** Marks a token revoked. */
export const updateTokenRevoked = async (db: Executor, id: string, revokedAt: Date): Promise<void> => {
  await db.update(bootstrapToken).set({ revokedAt }).where(eq(bootstrapToken.id, id));
};

/** These tokens by id, locked like one, in the order of their ids. Lock their policies first. */
export const lockTokens = async (db: Executor, ids: readonly string[]): Promise<Map<string, TokenRow>> => {
  const { id } = bootstrapToken;
  const rows = await db.select().from(bootstrapToken).where(anyOf(id, ids)).orderBy(id).for("no key update");
  return new Map(rows.map((row) => [row.id, row]));
};

/** Counts so many more uses, and keeps the last one. */
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

/** One page of a policy's tokens. */
export const listTokens = async (db: Executor, policyId: string, page: Page): Promise<Paged<TokenRow>> => {
  const { where, orderBy, limit } = pageOf(bootstrapToken.id, page, [eq(bootstrapToken.policyId, policyId)]);
  return paged(await db.select().from(bootstrapToken).where(where).orderBy(orderBy).limit(limit), page);
};
