import type { SessionFlow } from "#drizzle/schema/operator.ts";
import type { ConfiguredCore } from "#functions/core.ts";
import { Problem } from "#functions/problems.ts";
import type { Executor } from "#functions/store/database/database.ts";
import type { PersonRow } from "#functions/store/directory/directory.ts";
import { findPerson, isWebSessionEnded } from "#functions/store/operator/operators.ts";
import {
  type CodeRow,
  countPendingDevices,
  type DeviceRow,
  deleteDeviceOfLargest,
  deleteDevicesBefore,
  deleteOldSignIns,
  findDevice,
  insertCode,
  insertDevice,
  insertSession,
  lockCode,
  lockDevice,
  lockDeviceOfUser,
  updateCodeUsed,
  updateDevice,
  updateSessionRevoked,
} from "#functions/store/operator-session/operator-sessions.ts";
import { addressKey } from "#kit/address.ts";
import { equalBytes, sha256 } from "#kit/bytes.ts";
import { dayMs, hourMs } from "#kit/clock.ts";
import { type Entropy, uuidv7 } from "#kit/entropy.ts";
import { signJwt } from "#kit/jwt.ts";
import { bridgeAudience } from "#proto/operator/bridge-token.ts";
import type { Scope } from "#proto/operator/scopes.ts";
import { toBase64url } from "#proto/values.ts";
import { type Actor, type Origin, operatorActor, recordAudit } from "../audit/audit-log.ts";
import { type RefusalEntry, recordRefusals } from "../audit/record-refusals.ts";
import type { Operator, WebSessionOfCaller } from "../operator/authenticate.ts";

/** The lifetime of a device's codes. */
const deviceSeconds = 600;
const intervalSecondsFirst = 5;
/** RFC 8628, 3.5: `slow_down` adds this to the interval. */
const intervalSecondsAdded = 5;
/** The most waiting devices, so that a stranger cannot fill the table. */
const devicesMax = 10_000;

/** Consonants that are hard to confuse, and that form no words (RFC 8628, 6.1): 20^8 codes. */
const alphabet = "BCDFGHJKLMNPQRSTVWXZ";
const userCodeLength = 8;

/** Returns a user code as stored: in upper case, without hyphen and spaces; null if the text is no user code. */
const canonicalUserCode = (text: string) => {
  const code = text.toUpperCase().replace(/[\s-]/g, "");
  return code.length === userCodeLength && [...code].every((letter) => alphabet.includes(letter))
    ? code
    : null;
};

const shownUserCode = (code: string) => `${code.slice(0, 4)}-${code.slice(4)}`;

const randomUserCode = (entropy: Entropy) => {
  let code = "";
  while (code.length < userCodeLength)
    // A byte above the largest multiple of 20 would favour some letters.
    for (const byte of entropy.bytes(userCodeLength))
      if (byte < 240) code += alphabet.charAt(byte % alphabet.length);
  return code.slice(0, userCodeLength);
};

/** The codes of a device that requests a sign-in. */
interface DeviceCodes {
  deviceCode: string;
  /** As shown to people: `BCDF-GHJK`. */
  userCode: string;
  expiresInSeconds: number;
  intervalSeconds: number;
}

/**
 * Issues the codes of a device. When too many devices wait, replaces the oldest of the address with the most. Deletes codes older than an
 * hour.
 */
export const issueDeviceCodes = async (
  { db, clock, entropy }: ConfiguredCore,
  { clientName }: { clientName: string },
  { remoteAddress }: Origin,
): Promise<DeviceCodes> => {
  const deviceCode = toBase64url(entropy.bytes(32));
  const deviceCodeSha256 = await sha256(deviceCode);
  const now = clock.now();
  const row: DeviceRow = {
    deviceCodeSha256,
    userCode: randomUserCode(entropy),
    clientName,
    remoteAddress,
    createdAt: new Date(now),
    status: "pending",
    userId: null,
    intervalSeconds: intervalSecondsFirst,
    lastPolledAt: null,
    addressKey: addressKey(remoteAddress, 48),
    webSessionId: null,
    webSessionExpiresAt: null,
  };
  await db.transaction(async (tx) => {
    await deleteDevicesBefore(tx, new Date(now - hourMs));
    const since = new Date(now - deviceSeconds * 1000);
    if ((await countPendingDevices(tx, since)) >= devicesMax)
      await deleteDeviceOfLargest(tx, since);
    while (!(await insertDevice(tx, row))) row.userCode = randomUserCode(entropy);
  });
  return {
    deviceCode,
    userCode: shownUserCode(row.userCode),
    expiresInSeconds: deviceSeconds,
    intervalSeconds: intervalSecondsFirst,
  };
};

/** Returns the pending request of a user code, for the consent page. Throws 404 `not_found`, also for an expired or decided one. */
export const findPendingDevice = async (
  { db, clock }: ConfiguredCore,
  userCode: string,
): Promise<DeviceRow> => {
  const code = canonicalUserCode(userCode);
  const row = code === null ? undefined : await findDevice(db, code);
  return pendingDevice(row, clock.now());
};

/** An hour, the longest lifetime that core accepts of a bridge token; the web session may end earlier. */
const sessionSeconds = 3600;

/** A token of a new session. */
interface IssuedToken {
  accessToken: string;
  expiresInSeconds: number;
  scopes: readonly Scope[];
  sessionId: string;
}

/** The program and the person of a new session. */
interface SessionRequest {
  userId: string;
  flow: SessionFlow;
  clientName: string;
  /** The web session in which the person consented; null from a web that did not name it. */
  webSession: WebSessionOfCaller | null;
}

/** Why a program is not signed in; the reason code of the audit event. */
type RefusedSession =
  | "code_replayed"
  | "code_expired"
  | "redirect_uri_mismatch"
  | "verifier_mismatch"
  | "consent_denied"
  | "person_not_active"
  | "web_session_ended";

/** Returns the web session of a row that stores a consent. */
const webSessionOf = ({
  webSessionId: id,
  webSessionExpiresAt: expiresAt,
}: {
  webSessionId: string | null;
  webSessionExpiresAt: Date | null;
}): WebSessionOfCaller | null => (id === null || expiresAt === null ? null : { id, expiresAt });

/**
 * Begins a session of an active person, with its audit event, in the transaction that consumes the code. It ends with the web session in
 * which the person consented, or earlier. If that has ended, or the person is not active, returns null and audits the refusal.
 */
const beginSession = async (
  tx: Executor,
  core: ConfiguredCore,
  { userId, flow, clientName, webSession }: SessionRequest,
  origin: Origin,
): Promise<IssuedToken | null> => {
  const person = await findPerson(tx, userId);
  if (person?.status !== "active") {
    await refuseSession(tx, core, { userId, clientName, reason: "person_not_active" }, origin);
    return null;
  }
  const id = uuidv7(core);
  const issuedAt = Math.floor(core.clock.now() / 1000);
  const expiresAt = expiryOf(issuedAt, webSession);
  const isOver = expiresAt <= issuedAt;
  if (isOver || (webSession !== null && (await isWebSessionEnded(tx, webSession.id)))) {
    await refuseSession(tx, core, { userId, clientName, reason: "web_session_ended" }, origin);
    return null;
  }
  await insertSession(tx, {
    id,
    userId,
    flow,
    clientName,
    remoteAddress: origin.remoteAddress,
    createdAt: new Date(core.clock.now()),
    expiresAt: new Date(expiresAt * 1000),
    revokedAt: null,
    webSessionId: webSession?.id ?? null,
  });
  await recordAudit(tx, core, {
    actor: actorOf(person),
    action: "operator_session.create",
    target: { type: "operator_session", id },
    outcome: "success",
    origin,
    details: {
      flow,
      client_name: clientName,
      expires_at: new Date(expiresAt * 1000).toISOString(),
    },
  });
  return {
    accessToken: await signToken(core, { id, userId, issuedAt, expiresAt }),
    expiresInSeconds: expiresAt - issuedAt,
    scopes: person.scopes,
    sessionId: id,
  };
};

/** Returns when a session ends, in seconds: at the latest with the web session. */
const expiryOf = (issuedAt: number, webSession: WebSessionOfCaller | null) =>
  Math.min(
    issuedAt + sessionSeconds,
    webSession === null
      ? Number.POSITIVE_INFINITY
      : Math.floor(webSession.expiresAt.getTime() / 1000),
  );

const signToken = (
  { config }: ConfiguredCore,
  session: { id: string; userId: string; issuedAt: number; expiresAt: number },
) =>
  signJwt(
    {
      sid: session.id,
      sub: session.userId,
      aud: bridgeAudience,
      iat: session.issuedAt,
      exp: session.expiresAt,
    },
    "JWT",
    config.authTokenSecret,
  );

/** Audits and counts that a program was not signed in (see `recordRefusals`): a used code can be sent any number of times. */
const refuseSession = async (
  tx: Executor,
  core: ConfiguredCore,
  { userId, clientName, reason }: { userId: string; clientName: string; reason: RefusedSession },
  origin: Origin,
) => {
  const person = await findPerson(tx, userId);
  const refusal: RefusalEntry = {
    actor:
      person === undefined ? { type: "operator", id: userId, display: userId } : actorOf(person),
    action: "operator_session.refuse",
    target: { type: "person", id: userId },
    reasonCode: reason,
    origin,
    details: { client_name: clientName },
  };
  await recordRefusals(tx, core, [refusal]);
};

/** Returns the token, or throws 400 `invalid_grant`, which does not reveal the reason (RFC 6749, 5.2). */
const tokenOrRefusal = (issued: IssuedToken | null): IssuedToken => {
  if (issued === null) throw new Problem("invalid_grant");
  return issued;
};

const actorOf = ({ userId, primaryEmail, scopes }: PersonRow): Actor =>
  operatorActor({ userId, email: primaryEmail, scopes });

/** Records the person's decision on a pending device. Throws 404 `not_found`. Audits a denial immediately, an approval with its session. */
export const decideDevice = async (
  core: ConfiguredCore,
  { userId, webSession }: Operator,
  { userCode, approved }: { userCode: string; approved: boolean },
  origin: Origin,
): Promise<void> =>
  core.db.transaction(async (tx) => {
    const code = canonicalUserCode(userCode);
    const row = pendingDevice(
      code === null ? undefined : await lockDeviceOfUser(tx, code),
      core.clock.now(),
    );
    await updateDevice(tx, row, {
      status: approved ? "approved" : "denied",
      userId,
      webSessionId: webSession?.id ?? null,
      webSessionExpiresAt: webSession?.expiresAt ?? null,
    });
    const { clientName } = row;
    if (!approved)
      await refuseSession(tx, core, { userId, clientName, reason: "consent_denied" }, origin);
  });

const pendingDevice = (row: DeviceRow | undefined, now: number): DeviceRow => {
  if (row === undefined || row.status !== "pending" || isExpired(row, now))
    throw new Problem("not_found", { detail: "No device waits for this code" });
  return row;
};

/**
 * Answers a device that polls (RFC 8628, 3.5). Throws 400 `authorization_pending`, `slow_down`, `access_denied`, `expired_token`, and
 * `invalid_grant` for an unknown or used code.
 */
export const redeemDeviceCode = async (
  core: ConfiguredCore,
  { deviceCode }: { deviceCode: string },
  origin: Origin,
): Promise<IssuedToken> => {
  const deviceCodeSha256 = await sha256(deviceCode);
  const answer = await core.db.transaction(async (tx) => {
    const row = await lockDevice(tx, deviceCodeSha256);
    const now = core.clock.now();
    if (row === undefined || row.status === "used") throw new Problem("invalid_grant");
    if (isExpired(row, now)) throw new Problem("expired_token");
    if (row.status === "denied") throw new Problem("access_denied");
    if (row.status === "approved" && row.userId !== null) {
      await updateDevice(tx, row, { status: "used" });
      const { userId, clientName } = row;
      const request = {
        userId,
        flow: "device",
        clientName,
        webSession: webSessionOf(row),
      } as const;
      return { issued: await beginSession(tx, core, request, origin) };
    }
    const { intervalSeconds, lastPolledAt } = row;
    const tooSoon = lastPolledAt !== null && now < lastPolledAt.getTime() + intervalSeconds * 1000;
    const slower = tooSoon ? { intervalSeconds: intervalSeconds + intervalSecondsAdded } : {};
    await updateDevice(tx, row, { lastPolledAt: new Date(now), ...slower });
    return { problem: tooSoon ? ("slow_down" as const) : ("authorization_pending" as const) };
  });
  if (answer.problem !== undefined) throw new Problem(answer.problem);
  return tokenOrRefusal(answer.issued);
};

const isExpired = ({ createdAt }: DeviceRow, now: number) =>
  now >= createdAt.getTime() + deviceSeconds * 1000;

/** Short, because the program waits for the code. */
export const codeSeconds = 60;
const sessionsKeptDays = 30;

/** A request to sign a program in as the person who consents. */
interface Authorization {
  /** BASE64URL(SHA-256(code_verifier)): RFC 7636, 4.2. */
  codeChallenge: string;
  /** On the program's loopback interface (RFC 8252, 7.3). */
  redirectUri: string;
  clientName: string;
}

/** Issues a code for the person who consented; the database stores its SHA-256. */
export const issueCode = async (
  { db, clock, entropy }: ConfiguredCore,
  { userId, webSession }: Operator,
  { codeChallenge, redirectUri, clientName }: Authorization,
): Promise<string> => {
  const code = toBase64url(entropy.bytes(32));
  const codeSha256 = await sha256(code);
  const now = clock.now();
  await db.transaction(async (tx) => {
    await deleteOldSignIns(tx, {
      codesBefore: new Date(now - dayMs),
      sessionsBefore: new Date(now - sessionsKeptDays * dayMs),
    });
    const row: CodeRow = {
      codeSha256,
      userId,
      codeChallenge,
      redirectUri,
      clientName,
      createdAt: new Date(now),
      usedAt: null,
      sessionId: null,
      webSessionId: webSession?.id ?? null,
      webSessionExpiresAt: webSession?.expiresAt ?? null,
    };
    await insertCode(tx, row);
  });
  return code;
};

/** Audits that the person on the consent page refused a program. */
export const refuseConsent = async (
  core: ConfiguredCore,
  { userId }: Operator,
  { clientName }: { clientName: string },
  origin: Origin,
): Promise<void> =>
  core.db.transaction((tx) =>
    refuseSession(tx, core, { userId, clientName, reason: "consent_denied" }, origin),
  );

/** The parameters with which a program redeems its code. */
interface Redemption {
  code: string;
  codeVerifier: string;
  redirectUri: string;
}

/**
 * Redeems a code once. A second use revokes the session of the first (RFC 6749, 4.1.2), and a wrong verifier or redirect address consumes
 * the code. Audits each refusal of a known code. Throws 400 `invalid_grant`.
 */
export const redeemCode = async (
  core: ConfiguredCore,
  redemption: Redemption,
  origin: Origin,
): Promise<IssuedToken> => {
  const codeSha256 = await sha256(redemption.code);
  const challenge = await sha256(redemption.codeVerifier);
  const issued = await core.db.transaction(async (tx) => {
    const row = await lockCode(tx, codeSha256);
    if (row === undefined) throw new Problem("invalid_grant");
    const { userId, clientName } = row;
    const usedAt = new Date(core.clock.now());
    const reason = refusalOf(row, { ...redemption, challenge, now: core.clock.now() });
    if (reason !== null) {
      await refuseCode(tx, core, { row, reason, usedAt }, origin);
      return null;
    }
    const request = { userId, flow: "browser", clientName, webSession: webSessionOf(row) } as const;
    const session = await beginSession(tx, core, request, origin);
    await updateCodeUsed(tx, codeSha256, { usedAt, sessionId: session?.sessionId ?? null });
    return session;
  });
  return tokenOrRefusal(issued);
};

const refusalOf = (
  row: CodeRow,
  { redirectUri, challenge, now }: { redirectUri: string; challenge: Uint8Array; now: number },
): RefusedSession | null => {
  if (row.usedAt !== null) return "code_replayed";
  if (now >= row.createdAt.getTime() + codeSeconds * 1000) return "code_expired";
  if (row.redirectUri !== redirectUri) return "redirect_uri_mismatch";
  const expected = Uint8Array.fromBase64(row.codeChallenge, { alphabet: "base64url" });
  return equalBytes(expected, challenge) ? null : "verifier_mismatch";
};

const refuseCode = async (
  tx: Executor,
  core: ConfiguredCore,
  { row, reason, usedAt }: { row: CodeRow; reason: RefusedSession; usedAt: Date },
  origin: Origin,
) => {
  const { codeSha256, sessionId, userId, clientName } = row;
  if (row.usedAt === null) await updateCodeUsed(tx, codeSha256, { usedAt, sessionId: null });
  if (sessionId !== null) await updateSessionRevoked(tx, sessionId, usedAt);
  await refuseSession(tx, core, { userId, clientName, reason }, origin);
};
