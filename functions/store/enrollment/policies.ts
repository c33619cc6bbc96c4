import { and, eq, inArray, isNotNull, isNull, lt, not, sql } from "drizzle-orm";
import { bootstrapToken, enrollmentPolicy } from "#drizzle/schema/enrollment.ts";
import { groupCalls, singleFlight } from "#kit/group-calls.ts";
import type { Executor } from "../database/database.ts";
import { tooManyWaiting } from "../database/group-transactions.ts";
import { canRetryIndividually } from "../database/problem.ts";
import {
  anyOf,
  arrayLiteral,
  asDate,
  asIs,
  executePrepared,
  finderOf,
  firstRow,
  inserterOf,
  listPage,
  lockerOf,
  orNull,
  type Paged,
  type PageRequest,
  type RowOf,
  readRows,
  rowReader,
  timestamptz,
  updaterOf,
  uuids,
} from "../database/statements.ts";

/** An enrollment policy's row. */
export type PolicyRow = typeof enrollmentPolicy.$inferSelect;

/** Inserts a policy. Returns undefined if its name is taken. */
export const insertPolicy = (
  db: Executor,
  row: typeof enrollmentPolicy.$inferInsert,
): Promise<PolicyRow | undefined> =>
  firstRow(
    db
      .insert(enrollmentPolicy)
      .values(row)
      .onConflictDoNothing({ target: enrollmentPolicy.name })
      .returning(),
  );

/** Finds a policy and locks its row until the transaction ends. Limits, freezing and issuing are decided under this lock. */
export const lockPolicy = lockerOf(enrollmentPolicy);

/** Changes a policy. */
export const updatePolicy = updaterOf(enrollmentPolicy);

/** Finds policies and locks them in the order of their ids, so that groups cannot deadlock. */
export const lockPolicies = async (
  db: Executor,
  ids: readonly string[],
): Promise<Map<string, PolicyRow>> => {
  const { id } = enrollmentPolicy;
  const found = db
    .select()
    .from(enrollmentPolicy)
    .where(anyOf(id, ids))
    .orderBy(id)
    .for("no key update");
  const rows = await found.prepare("lock_policies").execute();
  return new Map(rows.map((row) => [row.id, row]));
};

/** Adds to the counts of first enrollments. Lock the policies first. */
export const addEnrollments = async (
  db: Executor,
  counts: readonly { id: string; enrollments: number }[],
) => {
  if (counts.length === 0) return;
  await executePrepared(
    db,
    sql`update enrollment_policy p set enrollment_count = p.enrollment_count + n.enrollments
    from json_to_recordset(${JSON.stringify(counts)}::json) as n (id uuid, enrollments bigint) where p.id = n.id`,
  );
};

/** A policy that admits service account tokens. */
export type WorkloadPolicy = Pick<PolicyRow, "id" | "createdBy"> & {
  workload: NonNullable<PolicyRow["workload"]>;
};

/** Finds the policies that trust an issuer: oldest first, frozen ones last. */
export const findWorkloadPolicies = async (
  db: Executor,
  issuer: string,
): Promise<WorkloadPolicy[]> => {
  const { id, createdBy, workload, frozenAt } = enrollmentPolicy;
  const rows = await db
    .select({ id, createdBy, workload })
    .from(enrollmentPolicy)
    .where(sql`${workload}->>'issuer' = ${issuer}`)
    .orderBy(sql`${frozenAt} is not null`, id);
  return rows.flatMap(({ workload: terms, ...row }) =>
    terms === null ? [] : [{ ...row, workload: terms }],
  );
};

/** Finds a policy. */
export const findPolicy = finderOf(enrollmentPolicy);

/** A bootstrap token's row. */
export type TokenRow = typeof bootstrapToken.$inferSelect;

/** Inserts a token. */
export const insertToken = inserterOf(bootstrapToken);

/** Inserts the token under which a service account token enrolls, unless it is known. */
export const insertAttestedToken = async (
  db: Executor,
  row: typeof bootstrapToken.$inferInsert,
) => {
  await db
    .insert(bootstrapToken)
    .values(row)
    .onConflictDoNothing({ target: bootstrapToken.tokenSha256 });
};

/** Deletes up to `limit` service account tokens that expired before `before` and enrolled no host. */
export const deleteUnusedAttested = async (db: Executor, before: Date, limit: number) => {
  const { id, attestation, useCount, expiresAt } = bootstrapToken;
  const isReserved = sql`exists (select from enrollment_reservation r where r.token_id = ${id})`;
  const unused = db
    .select({ id })
    .from(bootstrapToken)
    .where(and(isNotNull(attestation), eq(useCount, 0), lt(expiresAt, before), not(isReserved)))
    .limit(limit)
    .for("update", { skipLocked: true });
  await db.delete(bootstrapToken).where(inArray(id, unused));
};

/** The columns of a token that decide on its use. */
export type TokenTerms = RowOf<typeof termColumns>;

/** What decides whether a token may enroll, before the body of its request is read. */
export interface PresentedToken {
  token: TokenTerms;
  policy: Pick<PolicyRow, "id" | "allowedSourceCidrs" | "frozenAt">;
}

/**
 * Creates a function that finds the token with a hash (lowercase hex), and its policy. Concurrent calls share statements (see
 * `groupCalls`), and calls with one hash share a result.
 */
export const createTokenFinder = (
  db: Executor,
): ((tokenSha256: string) => Promise<PresentedToken | undefined>) => {
  const keyOf = (tokenSha256: string) => tokenSha256;
  const find = groupCalls<string, PresentedToken | undefined>({
    run: (hashes) => findTokensByHash(db, hashes),
    keyOf,
    concurrency: 2,
    itemsMax: 128,
    waiting: tooManyWaiting,
    isolate: canRetryIndividually,
  });
  return singleFlight(find, keyOf);
};

/** Hot statements convert rows themselves, which takes drizzle several times as long. */
const termColumns = {
  id: String,
  policyId: String,
  tokenPrefix: String,
  allowedSourceCidrs: asIs<string[]>,
  boundDeviceId: orNull(String),
  maxUses: Number,
  useCount: Number,
  expiresAt: asDate,
  revokedAt: orNull(asDate),
  attestation: asIs<TokenRow["attestation"]>,
};

const terms =
  sql.raw(`t.id, t.policy_id, t.token_prefix, t.allowed_source_cidrs, t.bound_device_id, t.max_uses, t.use_count,
  t.expires_at, t.revoked_at, t.attestation`);

/** Finds the token with a hash as it is now, without sharing an earlier lookup as `createTokenFinder` may. */
export const findPresentedToken = async (
  db: Executor,
  tokenSha256: string,
): Promise<PresentedToken | undefined> => (await findTokensByHash(db, [tokenSha256]))[0];

const findTokensByHash = async (
  db: Executor,
  hashes: readonly string[],
): Promise<readonly (PresentedToken | undefined)[]> => {
  const wanted = arrayLiteral(hashes.map((hash) => Uint8Array.fromHex(hash)));
  const rows = await readRows(
    db,
    { ...termColumns, sha256: String, policyCidrs: asIs<string[]>, frozenAt: orNull(asDate) },
    sql`select ${terms}, encode(t.token_sha256, 'hex') as sha256, p.allowed_source_cidrs as policy_cidrs, p.frozen_at
    from bootstrap_token t join enrollment_policy p on p.id = t.policy_id where t.token_sha256 = any(${wanted}::bytea[])`,
  );
  const found = new Map(
    rows.map(({ sha256, policyCidrs, frozenAt, ...token }): [string, PresentedToken] => [
      sha256,
      { token, policy: { id: token.policyId, allowedSourceCidrs: policyCidrs, frozenAt } },
    ]),
  );
  return hashes.map((hash) => found.get(hash));
};

/** Finds the oldest policy that is not frozen. */
export const findOldestActivePolicy = async (db: Executor): Promise<PolicyRow | undefined> => {
  const { id, frozenAt } = enrollmentPolicy;
  return firstRow(db.select().from(enrollmentPolicy).where(isNull(frozenAt)).orderBy(id).limit(1));
};

/** Finds the token of a policy with this hash. */
export const findTokenOfPolicy = async (
  db: Executor,
  policyId: string,
  tokenSha256: Uint8Array,
): Promise<TokenRow | undefined> => {
  const isIt = and(
    eq(bootstrapToken.tokenSha256, tokenSha256),
    eq(bootstrapToken.policyId, policyId),
  );
  return firstRow(db.select().from(bootstrapToken).where(isIt));
};

/** Finds a token and locks its row until the transaction ends. */
export const lockToken = lockerOf(bootstrapToken);

/** Changes a token. */
export const updateToken = updaterOf(bootstrapToken);

/** Finds tokens, and locks them in the order of their ids if `lock` is set. Lock their policies first. */
export const findTokenTerms = async (
  db: Executor,
  ids: readonly string[],
  { lock }: { lock: boolean },
): Promise<Map<string, TokenTerms>> => {
  const rows = await executePrepared<Record<string, unknown>>(
    db,
    sql`select ${terms} from bootstrap_token t where t.id = any(${uuids(ids)}) ${lock ? inOrder : sql``}`,
  );
  return new Map(rows.map(rowReader(termColumns)).map((token) => [token.id, token]));
};

const inOrder = sql.raw("order by t.id for no key update");

/** Uses of one token. */
export interface TokenUses {
  id: string;
  uses: number;
  /** The address of the last one. */
  address: string;
}

/** Adds to the counts of uses and stores the newest ones. Lock the tokens first. */
export const addTokenUses = async (db: Executor, uses: readonly TokenUses[], at: Date) => {
  if (uses.length === 0) return;
  await executePrepared(
    db,
    sql`update bootstrap_token t
    set use_count = t.use_count + n.uses, last_used_at = ${timestamptz(at)}, last_used_address = n.address
    from json_to_recordset(${JSON.stringify(uses)}::json) as n (id uuid, uses bigint, address text) where t.id = n.id`,
  );
};

/** Returns one page of the bootstrap tokens of a policy. */
export const listTokens = async (
  db: Executor,
  policyId: string,
  page: PageRequest,
): Promise<Paged<TokenRow>> => {
  return listPage(db, bootstrapToken, page, [
    eq(bootstrapToken.policyId, policyId),
    isNull(bootstrapToken.attestation),
  ]);
};
