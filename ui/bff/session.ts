/**
 * Sessions: a JWT in a cookie, signed with `WEBAUTH_SECRET`; one signed with `WEBAUTH_SECRET_PREVIOUS` is valid too. Web stores no
 * sessions, only the ids of ended ones, in memory.
 *
 * 1. `exp` is `SESSION_TTL` after the sign-in; nothing extends it.
 * 2. Each sign-in issues a new session with a new id and replaces the browser's cookie, never adopts it (A2).
 * 3. A session identifies a person and holds no scopes: core reads status and scopes from the database on each request.
 * 4. A process that ended a session rejects every copy of its cookie. So does core, which receives the session's id with each request: at
 *    another web, a copy shows the empty page, and no data of core.
 * 5. A session names those that it replaced in its browser, so that one sign-out ends them all, and the programs' sessions made in them.
 * 6. A session needs HS256, this `typ` and `aud`, and every claim of the schema below.
 */
import { errors } from "jose";
import { LRUCache } from "lru-cache";
import * as v from "valibot";
import { createCookie, randomToken } from "./cookies.ts";
import { createSignedTokens } from "./signed-tokens.ts";
import type { Web } from "./web.ts";

/** A signed-in person. */
export interface WebSession {
  id: string;
  userId: string;
  displayName: string;
  /** Seconds since the Unix epoch. */
  expiresAt: number;
  /** When the provider authenticated the person, by web's clock in seconds; the sign-in, if the provider does not say. */
  authenticatedAt: number;
  /** The sessions of this browser and person that this one replaced and that have not expired, the newest last. */
  replaced: readonly ReplacedSession[];
}

/** A session that a later one of the same browser replaced. It ends with that one. */
interface ReplacedSession {
  id: string;
  /** Seconds since the Unix epoch. */
  expiresAt: number;
}

/** A person who signs in. */
interface SignedInPerson {
  userId: string;
  displayName: string;
  /** The seconds since the provider authenticated the person; null if it does not say. */
  authenticationAgeSeconds?: number | null;
}

/** The session of a request. A cookie with an invalid signature counts as none. */
type SessionCookie =
  | { kind: "none" }
  | { kind: "expired" }
  | { kind: "valid"; session: WebSession };

/** Issues, reads and ends sessions. */
export type Sessions = ReturnType<typeof createSessions>;

/** Ended sessions kept in memory: about 10 MB. */
const endedMax = 100_000;
/** The clocks of web's replicas differ by less. A session that begins later was issued by a wrong clock, and would last too long. */
const aheadSecondsMax = 600;
/** Browsers drop a cookie over 4 KiB. */
const nameLengthMax = 120;
/** No person signs in more often within one session's lifetime. */
const replacedMax = 16;
const Claims = v.object({
  jti: v.string(),
  sub: v.pipe(v.string(), v.uuid()),
  name: v.string(),
  iat: v.number(),
  exp: v.number(),
  auth_time: v.optional(v.number()),
  replaced: v.optional(v.array(v.object({ id: v.string(), exp: v.number() })), []),
});

/** Creates the sessions. On https the cookie is `__Host-svc_session`, which no other host can set; on http `svc_session`. */
export const createSessions = (web: Pick<Web, "config" | "clock" | "entropy">) => {
  const { config, clock, entropy } = web;
  const ttlSeconds = config.sessionTtlSeconds;
  const cookie = createCookie(config, { name: "svc_session", path: "/", ttlSeconds });
  const tokens = createSignedTokens(web, { type: "session+jwt", audience: "web", claims: Claims });
  const endedIds = new LRUCache<string, true>({ max: endedMax });
  const read = async (cookieHeader: string | undefined): Promise<SessionCookie> => {
    const token = cookie.read(cookieHeader);
    if (token === null) return { kind: "none" };
    try {
      const claims = await tokens.verify(token);
      const {
        jti: id,
        sub: userId,
        name: displayName,
        exp: expiresAt,
        auth_time: authenticatedAt = claims.iat,
      } = claims;
      if (endedIds.has(id)) return { kind: "none" };
      if (claims.iat > clock.now() / 1000 + aheadSecondsMax) return { kind: "expired" };
      const replaced = claims.replaced.map((session) => ({
        id: session.id,
        expiresAt: session.exp,
      }));
      return {
        kind: "valid",
        session: { id, userId, displayName, expiresAt, authenticatedAt, replaced },
      };
    } catch (error) {
      return { kind: error instanceof errors.JWTExpired ? "expired" : "none" };
    }
  };
  return {
    /** Issues a session, which replaces that of these cookies if it is the same person's; `cookie` is its `Set-Cookie` header. */
    issue: async (
      { userId, displayName, authenticationAgeSeconds }: SignedInPerson,
      cookieHeader?: string,
    ) => {
      const iat = Math.floor(clock.now() / 1000);
      const name = Array.from(displayName).slice(0, nameLengthMax).join("");
      const before = await read(cookieHeader);
      const replaced =
        before.kind === "valid" && before.session.userId === userId
          ? [...before.session.replaced, before.session]
              .filter(({ expiresAt }) => expiresAt > iat)
              .slice(-replacedMax)
          : [];
      const id = randomToken(entropy);
      const claims = {
        jti: id,
        sub: userId,
        iat,
        name,
        auth_time: iat - (authenticationAgeSeconds ?? 0),
        ...(replaced.length === 0
          ? {}
          : { replaced: replaced.map((session) => ({ id: session.id, exp: session.expiresAt })) }),
      };
      const token = await tokens.sign(claims, ttlSeconds);
      return { cookie: cookie.set(token), session: { id, expiresAt: iat + ttlSeconds } };
    },
    read,
    /** Ends the session of these cookies, if any. Returns the `Set-Cookie` header that deletes it in the browser. */
    end: async (cookieHeader: string | undefined): Promise<string> => {
      const state = await read(cookieHeader);
      if (state.kind === "valid")
        for (const { id } of [state.session, ...state.session.replaced]) endedIds.set(id, true);
      return cookie.clear();
    },
  };
};
