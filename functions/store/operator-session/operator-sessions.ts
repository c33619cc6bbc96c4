import {
  and,
  asc,
  count,
  desc,
  eq,
  getTableColumns,
  gt,
  inArray,
  isNull,
  lt,
  min,
  or,
  sql,
} from "drizzle-orm";
import {
  authenticationIdentity,
  authorizationCode,
  deviceAuthorization,
  endedWebSession,
  operatorSession,
  person,
  usedLogoutToken,
  webSession,
} from "#drizzle/schema/operator.ts";
import { dayMs } from "#kit/clock.ts";
import type { Executor } from "../database/database.ts";
import {
  finderOf,
  firstRow,
  hasRows,
  inserterOf,
  lockerOf,
  type Paged,
  type PageRequest,
  selectPage,
} from "../database/statements.ts";
import { whereWebSessionEnded } from "../operator/operators.ts";

/** A session of a program. */
type SessionRow = typeof operatorSession.$inferSelect;

/** A session, the email of its person, and whether the web session in which they consented has ended. */
export type ListedSession = SessionRow & { email: string; isWebSessionEnded: boolean };

/** An authorization code. */
export type CodeRow = typeof authorizationCode.$inferSelect;

/** A device authorization. */
export type DeviceRow = typeof deviceAuthorization.$inferSelect;

/** Inserts a session. */
export const insertSession = inserterOf(operatorSession);

/** Counts the sessions of programs that end with a session at web. */
export const countSessionsOfWebSession = (db: Executor, id: string, now: Date): Promise<number> =>
  db.$count(
    operatorSession,
    and(
      eq(operatorSession.webSessionId, id),
      isNull(operatorSession.revokedAt),
      gt(operatorSession.expiresAt, now),
    ),
  );

/** Some days later than necessary: if the clock is ahead, a deleted end would let an ended session continue once the clock is right. */
const forgottenBefore = (now: Date): Date => new Date(now.getTime() - 7 * dayMs);

/** Stores that a web session has ended, and deletes those that expired a week ago. Returns false if it was stored before. */
export const insertEndedWebSession = async (
  tx: Executor,
  row: typeof endedWebSession.$inferSelect,
  now: Date,
): Promise<boolean> => {
  await tx.delete(endedWebSession).where(lt(endedWebSession.expiresAt, forgottenBefore(now)));
  return hasRows(tx.insert(endedWebSession).values(row).onConflictDoNothing().returning());
};

/** Stores a web session, and deletes those that expired a week ago. */
export const insertWebSession = async (
  tx: Executor,
  row: typeof webSession.$inferSelect,
  now: Date,
) => {
  await tx.delete(webSession).where(lt(webSession.expiresAt, forgottenBefore(now)));
  await tx.insert(webSession).values(row).onConflictDoNothing();
};

/** Keeps other transactions from beginning or ending a web session of this session at the identity provider, until this one ends. */
export const lockProviderSession = async (tx: Executor, id: string) => {
  await tx.execute(
    sql`select pg_advisory_xact_lock(hashtextextended(${`provider session ${id}`}, 0))`,
  );
};

/** The same for every web session of a person, by the id or as the identity provider names them. Call it before `lockProviderSession`. */
export const lockPersonSessions = async (
  tx: Executor,
  person: { userId: string } | { tenantId: string; subject: string },
) => {
  const { userId, tenantId, subject } = authenticationIdentity;
  const isPerson =
    "userId" in person
      ? eq(userId, person.userId)
      : and(eq(tenantId, person.tenantId), eq(subject, person.subject));
  await tx.execute(sql`select pg_advisory_xact_lock(hashtextextended('sessions of ' || ${userId}, 0))
    from ${authenticationIdentity} where ${isPerson}`);
};

/** Reports whether an unexpired logout token has ended this session at the identity provider. */
export const isProviderSessionEnded = async (
  tx: Executor,
  id: string,
  now: Date,
): Promise<boolean> =>
  (await tx.$count(
    usedLogoutToken,
    and(eq(usedLogoutToken.providerSessionId, id), gt(usedLogoutToken.expiresAt, now)),
  )) > 0;

/** Stores a logout token, and deletes those that expired a week ago. Returns an earlier one with its `jti`, if there is one. */
export const insertUsedLogoutToken = async (
  tx: Executor,
  row: typeof usedLogoutToken.$inferInsert,
  now: Date,
): Promise<typeof usedLogoutToken.$inferSelect | undefined> => {
  await tx.delete(usedLogoutToken).where(lt(usedLogoutToken.expiresAt, forgottenBefore(now)));
  if (await hasRows(tx.insert(usedLogoutToken).values(row).onConflictDoNothing().returning()))
    return undefined;
  return firstRow(tx.select().from(usedLogoutToken).where(eq(usedLogoutToken.jti, row.jti)));
};

/**
 * Returns the web sessions that a logout token ends. If it names a session at the identity provider: that session's, and those of the
 * person that name none. Otherwise all of the person.
 */
export const listWebSessionsOf = async (
  tx: Executor,
  {
    tenantId,
    subject,
    providerSessionId,
  }: { tenantId: string; subject: string | null; providerSessionId: string | null },
  now: Date,
) => {
  const people = tx
    .select({ userId: authenticationIdentity.userId })
    .from(authenticationIdentity)
    .where(
      and(
        eq(authenticationIdentity.tenantId, tenantId),
        eq(authenticationIdentity.subject, subject ?? ""),
      ),
    );
  const ofPerson = inArray(webSession.userId, people);
  const isNamed =
    providerSessionId === null
      ? ofPerson
      : or(
          eq(webSession.providerSessionId, providerSessionId),
          and(isNull(webSession.providerSessionId), ofPerson),
        );
  return tx
    .select()
    .from(webSession)
    .where(and(gt(webSession.expiresAt, now), isNamed))
    .orderBy(webSession.id);
};

/** Returns one page of the sessions, newest first; those of one person if `userId` is given. */
export const listSessions = (
  db: Executor,
  { userId }: { userId: string | undefined },
  page: PageRequest,
): Promise<Paged<ListedSession>> => {
  const own = userId === undefined ? undefined : eq(operatorSession.userId, userId);
  const query = db
    .select({
      ...getTableColumns(operatorSession),
      email: person.primaryEmail,
      isWebSessionEnded: sql<boolean>`${whereWebSessionEnded(db, operatorSession.webSessionId)}`,
    })
    .from(operatorSession)
    .innerJoin(person, eq(person.userId, operatorSession.userId));
  return selectPage(query, operatorSession.id, page, [own]);
};

/** Finds a session and locks its row until the transaction ends. */
export const lockSession = lockerOf(operatorSession);

/** Revokes a session that is not revoked. */
export const updateSessionRevoked = async (tx: Executor, id: string, revokedAt: Date) => {
  await tx
    .update(operatorSession)
    .set({ revokedAt })
    .where(and(eq(operatorSession.id, id), isNull(operatorSession.revokedAt)));
};

/** Inserts a code. */
export const insertCode = inserterOf(authorizationCode);

/** Finds a code by its SHA-256 and locks its row until the transaction ends, so that only one caller redeems it. */
export const lockCode = lockerOf(authorizationCode, authorizationCode.codeSha256);

/** Marks a code used, with the session that it started, if any. */
export const updateCodeUsed = async (
  tx: Executor,
  codeSha256: Uint8Array,
  use: { usedAt: Date; sessionId: string | null },
) => {
  await tx.update(authorizationCode).set(use).where(eq(authorizationCode.codeSha256, codeSha256));
};

/** Inserts a device authorization. Returns false if its user code is taken. */
export const insertDevice = (tx: Executor, row: DeviceRow): Promise<boolean> =>
  hasRows(
    tx
      .insert(deviceAuthorization)
      .values(row)
      .onConflictDoNothing({ target: deviceAuthorization.userCode })
      .returning(),
  );

const pendingSince = (since: Date) =>
  and(eq(deviceAuthorization.status, "pending"), gt(deviceAuthorization.createdAt, since));

/** Counts the devices that have waited since a time. */
export const countPendingDevices = (tx: Executor, since: Date): Promise<number> =>
  tx.$count(deviceAuthorization, pendingSince(since));

/** Deletes the oldest waiting device of the address with the most waiting ones. */
export const deleteDeviceOfLargest = async (tx: Executor, since: Date) => {
  const { addressKey, createdAt, deviceCodeSha256 } = deviceAuthorization;
  const [largest] = await tx
    .select({ addressKey })
    .from(deviceAuthorization)
    .where(pendingSince(since))
    .groupBy(addressKey)
    .orderBy(desc(count()), asc(min(createdAt)))
    .limit(1);
  if (largest === undefined) return;
  const ofLargest =
    largest.addressKey === null ? isNull(addressKey) : eq(addressKey, largest.addressKey);
  const [oldest] = await tx
    .select({ deviceCodeSha256 })
    .from(deviceAuthorization)
    .where(and(pendingSince(since), ofLargest))
    .orderBy(asc(createdAt))
    .limit(1);
  if (oldest === undefined) return;
  await tx.delete(deviceAuthorization).where(eq(deviceCodeSha256, oldest.deviceCodeSha256));
};

/** Finds a device authorization by its user code. */
export const findDevice = finderOf(deviceAuthorization, deviceAuthorization.userCode);

/** Finds a device authorization by its user code and locks its row until the transaction ends. */
export const lockDeviceOfUser = lockerOf(deviceAuthorization, deviceAuthorization.userCode);

/** Finds a device authorization by the SHA-256 of its device code and locks its row until the transaction ends. */
export const lockDevice = lockerOf(deviceAuthorization, deviceAuthorization.deviceCodeSha256);

/** Changes a device authorization. */
export const updateDevice = async (
  tx: Executor,
  { deviceCodeSha256 }: Pick<DeviceRow, "deviceCodeSha256">,
  change: Partial<DeviceRow>,
) => {
  await tx
    .update(deviceAuthorization)
    .set(change)
    .where(eq(deviceAuthorization.deviceCodeSha256, deviceCodeSha256));
};

/** Deletes device authorizations created before a time, because anybody can create one. */
export const deleteDevicesBefore = async (tx: Executor, before: Date) => {
  await tx.delete(deviceAuthorization).where(lt(deviceAuthorization.createdAt, before));
};

/** Deletes codes created before `codesBefore`, and sessions that expired before `sessionsBefore`. */
export const deleteOldSignIns = async (
  tx: Executor,
  { codesBefore, sessionsBefore }: { codesBefore: Date; sessionsBefore: Date },
) => {
  await tx.delete(authorizationCode).where(lt(authorizationCode.createdAt, codesBefore));
  await tx.delete(operatorSession).where(lt(operatorSession.expiresAt, sessionsBefore));
};
