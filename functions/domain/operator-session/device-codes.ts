import type { ConfiguredCore } from "#functions/core.ts";
import { Problem } from "#functions/problems.ts";
import {
  countPendingDevices,
  type DeviceRow,
  deleteDeviceOfLargest,
  deleteDevicesBefore,
  findDevice,
  insertDevice,
  lockDevice,
  lockDeviceOfUser,
  updateDevice,
} from "#functions/store/operator-session/operator-sessions.ts";
import { addressKey } from "#kit/address.ts";
import { sha256 } from "#kit/bytes.ts";
import { hourMs } from "#kit/clock.ts";
import type { Entropy } from "#kit/entropy.ts";
import { toBase64url } from "#proto/values.ts";
import type { Origin } from "../audit/audit-log.ts";
import type { Operator } from "../operator/authenticate.ts";
import {
  beginSession,
  type IssuedToken,
  refuseSession,
  tokenOrRefusal,
  webSessionOf,
} from "./begin-session.ts";

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
