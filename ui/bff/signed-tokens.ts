import * as v from "valibot";
import { signJwt, verifyJwt } from "#kit/jwt.ts";
import type { Web } from "./web.ts";

/** A kind of token: web accepts no token of one kind as another. */
interface TokenKind<Schema extends v.GenericSchema> {
  /** The `typ` of its header. */
  type: string;
  audience: string;
  claims: Schema;
}

/** Creates the tokens of a kind: JWTs that any web of the deployment verifies, signed with `WEBAUTH_SECRET` or the one before. */
export const createSignedTokens = <Schema extends v.GenericSchema>(
  { config, clock }: Pick<Web, "config" | "clock">,
  { type, audience, claims: schema }: TokenKind<Schema>,
) => {
  /** Throws for a token that this deployment did not sign as one of this kind, and jose's `JWTExpired` for an expired one. */
  const verify = async (token: string): Promise<v.InferOutput<Schema>> => {
    const { payload } = await verifyJwt(token, config.sessionSecrets, {
      typ: type,
      audience,
      currentDate: new Date(clock.now()),
      requiredClaims: ["exp"],
    });
    return v.parse(schema, payload);
  };
  return {
    sign: (claims: object, lifetimeSeconds: number): Promise<string> => {
      const exp = Math.floor(clock.now() / 1000) + lifetimeSeconds;
      return signJwt({ ...claims, aud: audience, exp }, type, config.sessionSecrets.secret);
    },
    verify,
    /** Returns the claims; null for any other text. */
    read: (token: string): Promise<v.InferOutput<Schema> | null> => verify(token).catch(() => null),
  };
};
