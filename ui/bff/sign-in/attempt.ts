/**
 * Sign-in attempts: the state that the browser keeps while it is at the provider, in cookies that web signs.
 *
 * 1. Each attempt has a cookie of its own, named by a part of its `state`, so tabs do not interfere. Of more than five the oldest is
 *    cleared.
 * 2. An attempt serves one callback: the callback clears it on any outcome, and its code works once at the provider.
 * 3. An attempt is bound to its browser: a callback whose `state` matches no cookie is rejected (login CSRF). Another host of the domain
 *    can set a `__Secure-` cookie, so on https the signature is in a `__Host-` cookie, which it cannot set.
 */
import * as v from "valibot";
import { signJwt, verifyJwt } from "#kit/jwt.ts";
import { cookieNames, createCookie, randomToken, type WebCookie } from "../cookies.ts";
import type { Web } from "../web.ts";

/** The state of an attempt that the callback needs. */
export interface Attempt {
  state: string;
  nonce: string;
  codeVerifier: string;
  /** A path of this origin. */
  returnTo: string;
}

const ttlSeconds = 600;
/** The limit per browser: each attempt takes up to 4 KiB of its `Cookie` header. */
const attemptsMax = 5;
const type = "sign-in+jwt";
const audience = "sign-in";
const Claims = v.object({
  state: v.string(),
  nonce: v.string(),
  verifier: v.string(),
  return_to: v.string(),
});

/** Creates the attempts. On https the name of the cookie with the state begins with `__Secure-`. */
export const createAttempts = ({
  config,
  clock,
  entropy,
}: Pick<Web, "config" | "clock" | "entropy">) => {
  const { secure } = config;
  const prefix = secure ? "__Secure-svc_sign_in_" : "svc_sign_in_";
  const signaturePrefix = "__Host-svc_sign_in_";

  /** The cookies of one attempt: the token, or on https its body and its signature. */
  const cookiesOf = (id: string): WebCookie[] => [
    createCookie({ name: `${prefix}${id}`, path: "/api/auth", secure, ttlSeconds }),
    ...(secure
      ? [createCookie({ name: `${signaturePrefix}${id}`, path: "/", secure, ttlSeconds })]
      : []),
  ];
  const piecesOf = (token: string): string[] => {
    const dot = token.lastIndexOf(".");
    return secure ? [token.slice(0, dot), token.slice(dot + 1)] : [token];
  };
  const clear = (id: string): string[] => cookiesOf(id).map((cookie) => cookie.clear());
  /** Returns the ids of attempts, the oldest first; on https from the cookies that no other host of the domain can set. */
  const idsIn = (cookieHeader: string | undefined): string[] => {
    const own = secure ? signaturePrefix : prefix;
    return [...new Set(cookieNames(cookieHeader, own))]
      .map((name) => name.slice(own.length))
      .filter(isId);
  };

  return {
    /** Starts an attempt. Returns the `Set-Cookie` headers that store it and clear the oldest of a browser that has too many. */
    begin: async (returnTo: string, cookieHeader: string | undefined) => {
      const state = randomToken(entropy);
      const nonce = randomToken(entropy);
      const codeVerifier = randomToken(entropy);
      const exp = Math.floor(clock.now() / 1000) + ttlSeconds;
      const claims = { state, nonce, verifier: codeVerifier, return_to: returnTo };
      const token = await signJwt(
        { ...claims, aud: audience, exp },
        type,
        config.sessionSecrets.secret,
      );
      const pieces = piecesOf(token);
      const stored = cookiesOf(idOf(state)).map((cookie, index) => cookie.set(pieces[index] ?? ""));
      const ids = idsIn(cookieHeader);
      const tooMany = ids.slice(0, Math.max(0, ids.length + 1 - attemptsMax));
      return {
        attempt: { state, nonce, codeVerifier, returnTo },
        cookies: [...stored, ...tooMany.flatMap(clear)],
      };
    },
    /** Returns the attempt of this `state`; null if the browser has none, or it expired after ten minutes, or its signature is invalid. */
    resume: async (
      state: string | null,
      cookieHeader: string | undefined,
    ): Promise<Attempt | null> => {
      if (!isState(state)) return null;
      const pieces = cookiesOf(idOf(state)).map((cookie) => cookie.read(cookieHeader));
      try {
        const currentDate = new Date(clock.now());
        const checks = { typ: type, audience, currentDate, requiredClaims: ["exp"] };
        const { payload } = await verifyJwt(pieces.join("."), config.sessionSecrets, checks);
        const { state: own, nonce, verifier, return_to } = v.parse(Claims, payload);
        return { state: own, nonce, codeVerifier: verifier, returnTo: return_to };
      } catch {
        return null;
      }
    },
    /** Returns the `Set-Cookie` headers that clear the attempt of this `state`, and no other. */
    end: (state: string | null): string[] => (isState(state) ? clear(idOf(state)) : []),
  };
};

/** Long enough that a name cannot be guessed. */
const idLength = 16;
const idOf = (state: string) => state.slice(0, idLength);
const isId = (text: string) => /^[A-Za-z0-9_-]{16}$/.test(text);
const isState = (text: string | null): text is string =>
  text !== null && /^[A-Za-z0-9_-]{43}$/.test(text);
