/**
 * Sign-ins under way: what the browser keeps while it is at the provider, in cookies that web signed.
 *
 * 1. Each has its own, named by a part of its `state`, so that tabs do not disturb each other; of more than five the oldest goes.
 * 2. Good for one callback: the callback clears it, whatever the outcome, and its code is good once at the provider.
 * 3. Bound to the browser that began it: a callback whose `state` is no cookie's is refused (login CSRF). `__Secure-` keeps no other
 *    host of the domain from setting a cookie for us, so on https the signature stands in a `__Host-` cookie of its own, which does.
 */
import { jwtVerify, SignJWT } from "jose";
import * as v from "valibot";
import { cookieNames, createCookie, randomToken, type WebCookie } from "../cookies.ts";
import type { Web } from "../web.ts";

/** What the callback needs to know of its beginning. */
export interface Attempt {
  state: string;
  nonce: string;
  codeVerifier: string;
  /** A path of this origin. */
  returnTo: string;
}

/** Begins attempts and takes them up again. */
export interface Attempts {
  /** A new attempt and the `Set-Cookie` headers that keep it, and end the oldest of a browser that has too many. */
  begin(returnTo: string, cookieHeader: string | undefined): Promise<{ attempt: Attempt; cookies: string[] }>;
  /** The attempt of this `state`; null when the browser has none, or it is older than ten minutes, or not ours. */
  resume(state: string | null, cookieHeader: string | undefined): Promise<Attempt | null>;
  /** The `Set-Cookie` headers that end the attempt of this `state`, and no other. */
  end(state: string | null): string[];
}

const ttlSeconds = 600;
/** Of one browser; each takes up to 4 KiB of its header. */
const attemptsMax = 5;
const type = "sign-in+jwt";
const audience = "sign-in";
const Claims = v.object({ state: v.string(), nonce: v.string(), verifier: v.string(), return_to: v.string() });

/** The cookie that has the state begins with `__Secure-` on https (spec, `WEBAUTH_URL`). */
export const createAttempts = ({ config, clock, entropy }: Pick<Web, "config" | "clock" | "entropy">): Attempts => {
  const { secure } = config;
  const prefix = secure ? "__Secure-svc_sign_in_" : "svc_sign_in_";
  const signaturePrefix = "__Host-svc_sign_in_";
  const key = new TextEncoder().encode(config.sessionSecret.reveal());

  /** Of one attempt: the token, or on https its body and its signature. */
  const cookiesOf = (id: string): WebCookie[] => [
    createCookie({ name: `${prefix}${id}`, path: "/api/auth", secure, ttlSeconds }),
    ...(secure ? [createCookie({ name: `${signaturePrefix}${id}`, path: "/", secure, ttlSeconds })] : []),
  ];
  const piecesOf = (token: string): string[] => {
    const at = token.lastIndexOf(".");
    return secure ? [token.slice(0, at), token.slice(at + 1)] : [token];
  };
  const clear = (id: string): string[] => cookiesOf(id).map((cookie) => cookie.clear());
  /** The oldest first; on https those that no other host of the domain can have planted. */
  const idsIn = (cookieHeader: string | undefined): string[] => {
    const own = secure ? signaturePrefix : prefix;
    return [...new Set(cookieNames(cookieHeader, own))].map((name) => name.slice(own.length)).filter(isId);
  };

  return {
    begin: async (returnTo, cookieHeader) => {
      const [state, nonce, codeVerifier] = [randomToken(entropy), randomToken(entropy), randomToken(entropy)];
      const iat = Math.floor(clock.now() / 1000);
      const token = await new SignJWT({ state, nonce, verifier: codeVerifier, return_to: returnTo })
        .setProtectedHeader({ alg: "HS256", typ: type })
        .setAudience(audience)
        .setExpirationTime(iat + ttlSeconds)
        .sign(key);
      const pieces = piecesOf(token);
      const kept = cookiesOf(idOf(state)).map((cookie, at) => cookie.set(pieces[at] ?? ""));
      const under = idsIn(cookieHeader);
      const tooMany = under.slice(0, Math.max(0, under.length + 1 - attemptsMax));
      return { attempt: { state, nonce, codeVerifier, returnTo }, cookies: [...kept, ...tooMany.flatMap(clear)] };
    },
    resume: async (state, cookieHeader) => {
      if (!isState(state)) return null;
      const pieces = cookiesOf(idOf(state)).map((cookie) => cookie.read(cookieHeader));
      try {
        const currentDate = new Date(clock.now());
        const checks = { algorithms: ["HS256"], typ: type, audience, currentDate, requiredClaims: ["exp"] };
        const { payload } = await jwtVerify(pieces.join("."), key, checks);
        const { state: own, nonce, verifier, return_to } = v.parse(Claims, payload);
        return { state: own, nonce, codeVerifier: verifier, returnTo: return_to };
      } catch {
        return null;
      }
    },
    end: (state) => (isState(state) ? clear(idOf(state)) : []),
  };
};

/** Enough of it that nobody guesses a name. */
const idLength = 16;
const idOf = (state: string): string => state.slice(0, idLength);
const isId = (text: string): boolean => /^[A-Za-z0-9_-]{16}$/.test(text);
const isState = (text: string | null): text is string => text !== null && /^[A-Za-z0-9_-]{43}$/.test(text);
