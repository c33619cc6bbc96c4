import { SignJWT } from "jose";
import type { Clock } from "../../kit/clock.ts";
import { bridgeAudience } from "../../proto/operator/bridge-token.ts";
import type { WebConfig } from "./config.ts";

const lifetimeSeconds = 300;

/**
 * Mints a bridge token (spec, "Bridge token"): HS256, `aud` = `core`, for 300 s; one for each request to core, and never given to
 * a browser. `subject` is a `person.user_id`, or `webSubject`.
 */
export const createBridge = ({
  config,
  clock,
}: {
  config: Pick<WebConfig, "authTokenSecret">;
  clock: Pick<Clock, "now">;
}) => {
  const key = new TextEncoder().encode(config.authTokenSecret.reveal());
  return (subject: string): Promise<string> => {
    const iat = Math.floor(clock.now() / 1000);
    return new SignJWT()
      .setProtectedHeader({ alg: "HS256", typ: "JWT" })
      .setSubject(subject)
      .setAudience(bridgeAudience)
      .setIssuedAt(iat)
      .setExpirationTime(iat + lifetimeSeconds)
      .sign(key);
  };
};
