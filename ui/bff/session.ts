/**
 * Sessions: a JWT in a cookie, signed with `WEBAUTH_SECRET`; one signed with `WEBAUTH_SECRET_PREVIOUS` is valid too. Web stores no sessions, only the ids of ended ones, in memory.
 *
 * 1. `exp` is `SESSION_TTL` after the sign-in; nothing extends it.
 * 2. Each sign-in issues a new session with a new id and replaces the browser's cookie, never adopts it (A2).
 * 3. A session identifies a person and holds no scopes: core reads status and scopes from the database on each request.
 * 4. A process that ended a session rejects every copy of its cookie. So does core, which every web asks with the session's id: a copy
 *    shows another web's empty page, and nothing of core.
 * 5. Only HS256 with this `typ` and `aud` and every claim of the schema below passes as a session.
 */
import { errors, SignJWT } from "jose";
import { LRUCache } from "lru-cache";
import * as v from "valibot";
import { verifyJwt } from "../../kit/verify-jwt.ts";
import { createCookie, randomToken } from "./cookies.ts";
import type { Web } from "./web.ts";

/** A signed-in person. */
export interface WebSession {
  id: string;
  userId: string;
  displayName: string;
  /** Seconds since the Unix epoch. */
  expiresAt: number;
}

/** The session of a request. A cookie with an invalid signature counts as none. */
export type SessionCookie = { kind: "none" } | { kind: "expired" } | { kind: "valid"; session: WebSession };

/** Issues, reads and ends sessions. */
export interface Sessions {
  /** Returns the `Set-Cookie` header of a new session. */
  issue(person: { userId: string; displayName: string }): Promise<string>;
  read(cookieHeader: string | undefined): Promise<SessionCookie>;
  /** Ends the session of these cookies, if any. Returns the `Set-Cookie` header that deletes it in the browser. */
  end(cookieHeader: string | undefined): Promise<string>;
}

const audience = "web";
const type = "session+jwt";
/** Ended sessions kept in memory: about 10 MB. */
const endedMax = 100_000;
/** Browsers drop a cookie over 4 KiB. */
const nameLengthMax = 120;
const Claims = v.object({
  jti: v.string(),
  sub: v.pipe(v.string(), v.uuid()),
  name: v.string(),
  iat: v.number(),
  exp: v.number(),
});

/** Creates the sessions. On https the cookie is `__Host-svc_session`, which no other host can set; on http `svc_session`. */
export const createSessions = ({ config, clock, entropy }: Pick<Web, "config" | "clock" | "entropy">): Sessions => {
  const { secure, sessionTtlSeconds: ttlSeconds } = config;
  const cookieName = secure ? "__Host-svc_session" : "svc_session";
  const cookie = createCookie({ name: cookieName, path: "/", secure, ttlSeconds });
  const key = new TextEncoder().encode(config.sessionSecret.reveal());
  const secrets = { secret: config.sessionSecret, previous: config.sessionSecretPrevious };
  const endedIds = new LRUCache<string, true>({ max: endedMax });
  const read = async (cookieHeader: string | undefined): Promise<SessionCookie> => {
    const token = cookie.read(cookieHeader);
    if (token === null) return { kind: "none" };
    try {
      const currentDate = new Date(clock.now());
      const { payload } = await verifyJwt(token, secrets, { typ: type, audience, currentDate });
      const { jti, sub, name: displayName, exp } = v.parse(Claims, payload);
      if (endedIds.has(jti)) return { kind: "none" };
      return { kind: "valid", session: { id: jti, userId: sub, displayName, expiresAt: exp } };
    } catch (error) {
      return { kind: error instanceof errors.JWTExpired ? "expired" : "none" };
    }
  };
  return {
    issue: async ({ userId, displayName }) => {
      const iat = Math.floor(clock.now() / 1000);
      const name = Array.from(displayName).slice(0, nameLengthMax).join("");
      const token = await new SignJWT({ name })
        .setProtectedHeader({ alg: "HS256", typ: type })
        .setJti(randomToken(entropy))
        .setSubject(userId)
        .setAudience(audience)
        .setIssuedAt(iat)
        .setExpirationTime(iat + ttlSeconds)
        .sign(key);
      return cookie.set(token);
    },
    read,
    end: async (cookieHeader) => {
      const state = await read(cookieHeader);
      if (state.kind === "valid") endedIds.set(state.session.id, true);
      return cookie.clear();
    },
  };
};
