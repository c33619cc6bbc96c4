/**
 * A sign-in under way: what the browser keeps while it is at the provider, in a cookie that web signed.
 *
 * 1. One at a time: a new attempt replaces the one before.
 * 2. Good for one callback: the callback clears it, whatever the outcome, and its code is good once at the provider.
 * 3. Bound to the browser that began it: a callback whose `state` is not the cookie's is refused (login CSRF).
 */
import { jwtVerify, SignJWT } from "jose";
import * as v from "valibot";
import { createCookie, randomToken } from "../cookies.ts";
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
  /** A new attempt and the `Set-Cookie` header that keeps it. */
  begin(returnTo: string): Promise<{ attempt: Attempt; cookie: string }>;
  /** The attempt that the cookie holds; null when there is none, or it is older than ten minutes, or not ours. */
  resume(cookieHeader: string | undefined): Promise<Attempt | null>;
  /** The `Set-Cookie` header that ends the attempt. */
  end(): string;
}

const ttlSeconds = 600;
const type = "sign-in+jwt";
const audience = "sign-in";
const Claims = v.object({ state: v.string(), nonce: v.string(), verifier: v.string(), return_to: v.string() });

/** The cookie's name begins with `__Secure-` on https (spec, `WEBAUTH_URL`). */
export const createAttempts = ({ config, clock, entropy }: Pick<Web, "config" | "clock" | "entropy">): Attempts => {
  const { secure } = config;
  const name = secure ? "__Secure-svc_sign_in" : "svc_sign_in";
  const cookie = createCookie({ name, path: "/api/auth", secure, ttlSeconds });
  const key = new TextEncoder().encode(config.sessionSecret.reveal());
  return {
    begin: async (returnTo) => {
      const [state, nonce, codeVerifier] = [randomToken(entropy), randomToken(entropy), randomToken(entropy)];
      const iat = Math.floor(clock.now() / 1000);
      const token = await new SignJWT({ state, nonce, verifier: codeVerifier, return_to: returnTo })
        .setProtectedHeader({ alg: "HS256", typ: type })
        .setAudience(audience)
        .setExpirationTime(iat + ttlSeconds)
        .sign(key);
      return { attempt: { state, nonce, codeVerifier, returnTo }, cookie: cookie.set(token) };
    },
    resume: async (cookieHeader) => {
      const token = cookie.read(cookieHeader);
      if (token === null) return null;
      try {
        const currentDate = new Date(clock.now());
        const checks = { algorithms: ["HS256"], typ: type, audience, currentDate, requiredClaims: ["exp"] };
        const { payload } = await jwtVerify(token, key, checks);
        const { state, nonce, verifier, return_to } = v.parse(Claims, payload);
        return { state, nonce, codeVerifier: verifier, returnTo: return_to };
      } catch {
        return null;
      }
    },
    end: () => cookie.clear(),
  };
};
