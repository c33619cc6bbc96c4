/**
 * The session of a person who signed in: a JWT in a cookie, signed with `WEBAUTH_SECRET`; web keeps no table of them.
 *
 * 1. Absolute: `exp` is `SESSION_TTL` after the sign-in, and nothing extends it.
 * 2. Each sign-in issues a new one under a new id; what the browser brought along is replaced, never taken over (A2).
 * 3. It says who, and not what they may do: core reads status and scopes from the database on each request.
 * 4. Nothing but a session passes for one: HS256 alone, `typ`, `aud`, and every claim of the schema below.
 */
import { errors, jwtVerify, SignJWT } from "jose";
import * as v from "valibot";
import { createCookie, randomToken } from "./cookies.ts";
import type { Web } from "./web.ts";

/** Who is signed in, and until when. */
export interface Session {
  id: string;
  userId: string;
  displayName: string;
  /** Seconds since the Unix epoch. */
  expiresAt: number;
}

/** What a request's cookie turned out to be. A forged or foreign one counts as none. */
export type SessionState = { kind: "none" } | { kind: "expired" } | { kind: "valid"; session: Session };

/** Issues, reads and ends sessions. */
export interface Sessions {
  /** A new session for a person: the value of its `Set-Cookie` header. */
  issue(person: { userId: string; displayName: string }): Promise<string>;
  read(cookieHeader: string | undefined): Promise<SessionState>;
  /** The `Set-Cookie` header that ends the session in the browser. */
  end(): string;
}

const audience = "web";
const type = "session+jwt";
/** A browser keeps no cookie of more than 4 KiB. */
const nameLengthMax = 120;
const Claims = v.object({
  jti: v.string(),
  sub: v.pipe(v.string(), v.uuid()),
  name: v.string(),
  iat: v.number(),
  exp: v.number(),
});

/** The cookie is `__Host-svc_session` on https, where no other host of the domain can set it, and `svc_session` on http. */
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
