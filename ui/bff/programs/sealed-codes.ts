import { SignJWT } from "jose";
import * as v from "valibot";
import { verifyJwt } from "../../../kit/verify-jwt.ts";
import type { Web } from "../web.ts";

/** Seals core's codes for programs, so that any web recognises one without core, and a stranger can make none. */
export interface SealedCodes {
  seal(code: string, lifetimeSeconds: number): Promise<string>;
  /** Returns the code; null for a text that no web of this deployment sealed, or that expired. */
  open(text: string): Promise<string | null>;
}

const type = "code+jwt";
const audience = "code";
const Claims = v.object({ jti: v.string() });

/** Creates it with the keys of sessions. */
export const createSealedCodes = ({
  config,
  clock,
}: Pick<Web, "config" | "clock">): SealedCodes => {
  const key = new TextEncoder().encode(config.sessionSecret.reveal());
  const secrets = { secret: config.sessionSecret, previous: config.sessionSecretPrevious };
  return {
    seal: (code, lifetimeSeconds) =>
      new SignJWT()
        .setProtectedHeader({ alg: "HS256", typ: type })
        .setJti(code)
        .setAudience(audience)
        .setExpirationTime(Math.floor(clock.now() / 1000) + lifetimeSeconds)
        .sign(key),
    open: async (text) => {
      try {
        const checks = {
          typ: type,
          audience,
          currentDate: new Date(clock.now()),
          requiredClaims: ["exp"],
        };
        return v.parse(Claims, (await verifyJwt(text, secrets, checks)).payload).jti;
      } catch {
        return null;
      }
    },
  };
};
