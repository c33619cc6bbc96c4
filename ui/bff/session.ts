/**
 * Sessions: a JWT in a cookie, signed with `WEBAUTH_SECRET`. Web stores no sessions.
 *
 * 1. `exp` is `SESSION_TTL` after the sign-in; nothing extends it.
 * 2. Each sign-in issues a new session with a new id and replaces the browser's cookie, never adopts it (A2).
 * 3. A session identifies a person and holds no scopes: core reads status and scopes from the database on each request.
 * 4. Only HS256 with this `typ` and `aud` and every claim of the schema below passes as a session.
 */
import { errors, jwtVerify, SignJWT } from "jose";
import * as v from "valibot";
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
  /** Returns the `Set-Cookie` header that ends the session in the browser. */
  end(): string;
}

const audience = "web";
const type = "session+jwt";
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
    read: async (cookieHeader) => {
      const token = cookie.read(cookieHeader);
      if (token === null) return { kind: "none" };
      try {
        const currentDate = new Date(clock.now());
        const { payload } = await jwtVerify(token, key, { algorithms: ["HS256"], typ: type, audience, currentDate });
        const { jti, sub, name: displayName, exp } = v.parse(Claims, payload);
        return { kind: "valid", session: { id: jti, userId: sub, displayName, expiresAt: exp } };
      } catch (error) {
        return { kind: error instanceof errors.JWTExpired ? "expired" : "none" };
      }
    },
    end: () => cookie.clear(),
  };
};
