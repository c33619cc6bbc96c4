import type { ConfiguredCore } from "#functions/core.ts";
import { Problem } from "#functions/problems.ts";
import type { Executor } from "#functions/store/database/database.ts";
import {
  type CodeRow,
  deleteOldSignIns,
  insertCode,
  lockCode,
  updateCodeUsed,
  updateSessionRevoked,
} from "#functions/store/operator-session/operator-sessions.ts";
import { equalBytes, sha256 } from "#kit/bytes.ts";
import { dayMs } from "#kit/clock.ts";
import { toBase64url } from "#proto/values.ts";
import type { Origin } from "../audit/audit-log.ts";
import type { Operator } from "../operator/authenticate.ts";
import {
  beginSession,
  type IssuedToken,
  type RefusedSession,
  refuseSession,
  tokenOrRefusal,
  webSessionOf,
} from "./begin-session.ts";

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
