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
import { cookieName, cookieNames, createCookie, randomToken } from "../cookies.ts";
import { createSignedTokens } from "../signed-tokens.ts";
import type { Web } from "../web.ts";

/** The state of an attempt that the callback needs. */
export interface Attempt {
  state: string;
  nonce: string;
  codeVerifier: string;
  /** A path of this origin. */
  returnTo: string;
  /** Whether the provider was asked to authenticate the person again. */
  isFresh: boolean;
}

const ttlSeconds = 600;
/** The limit per browser: each attempt takes up to 4 KiB of its `Cookie` header. */
const attemptsMax = 5;
const Claims = v.object({
  state: v.string(),
  nonce: v.string(),
  verifier: v.string(),
  return_to: v.string(),
  fresh: v.optional(v.boolean(), false),
});

const prefix = "svc_sign_in_";
const path = "/api/auth";

/** Creates the attempts. */
export const createAttempts = (web: Pick<Web, "config" | "clock" | "entropy">) => {
  const { config, entropy } = web;
  const { secure } = config;
  const tokens = createSignedTokens(web, {
    type: "sign-in+jwt",
    audience: "sign-in",
    claims: Claims,
  });

  /** The cookies of one attempt: the token, or on https its body and its signature. */
  const cookiesOf = (id: string) =>
    (secure ? [path, "/"] : [path]).map((of) =>
      createCookie(config, { name: `${prefix}${id}`, path: of, ttlSeconds }),
    );
  const piecesOf = (token: string): string[] => {
    const dot = token.lastIndexOf(".");
    return secure ? [token.slice(0, dot), token.slice(dot + 1)] : [token];
  };
  const clear = (id: string): string[] => cookiesOf(id).map((cookie) => cookie.clear());
  /** Returns the ids of attempts, the oldest first; on https from the cookies that no other host of the domain can set. */
  const idsIn = (cookieHeader: string | undefined): string[] => {
    const own = cookieName(config, prefix, secure ? "/" : path);
    return [...new Set(cookieNames(cookieHeader, own))]
      .map((name) => name.slice(own.length))
      .filter(isId);
  };

  return {
    /** Starts an attempt. Returns the `Set-Cookie` headers that store it and clear the oldest of a browser that has too many. */
    begin: async (returnTo: string, cookieHeader: string | undefined, isFresh = false) => {
      const state = randomToken(entropy);
      const nonce = randomToken(entropy);
      const codeVerifier = randomToken(entropy);
      const claims = { state, nonce, verifier: codeVerifier, return_to: returnTo, fresh: isFresh };
      const pieces = piecesOf(await tokens.sign(claims, ttlSeconds));
      const stored = cookiesOf(idOf(state)).map((cookie, index) => cookie.set(pieces[index] ?? ""));
      const ids = idsIn(cookieHeader);
      const tooMany = ids.slice(0, Math.max(0, ids.length + 1 - attemptsMax));
      return {
        attempt: { state, nonce, codeVerifier, returnTo, isFresh },
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
      const claims = await tokens.read(pieces.join("."));
      if (claims === null) return null;
      const { state: own, nonce, verifier, return_to, fresh } = claims;
      return { state: own, nonce, codeVerifier: verifier, returnTo: return_to, isFresh: fresh };
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
