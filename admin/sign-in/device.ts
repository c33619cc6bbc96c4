import * as v from "valibot";
import { ActionFailure, exitCodes } from "../terminal/exit-codes.ts";
import type { Terminal } from "../terminal/terminal.ts";
import { clientName, postForm, requestToken, type Token } from "./token-endpoint.ts";

const Codes = v.object({
  device_code: v.string(),
  user_code: v.string(),
  verification_uri: v.string(),
  expires_in: v.number(),
  interval: v.number(),
});

/** What `slow_down` adds to the interval (RFC 8628, 3.5). */
const intervalSecondsAdded = 5;

/** Signs in with a code that the person types on another machine (RFC 8628). Throws when they refuse, or the code expires. */
export const signInByDevice = async (terminal: Terminal, url: string): Promise<Token> => {
  const { clock, err, signal } = terminal;
  const answer = await postForm(
    terminal,
    `${url}/oauth/device_authorization`,
    { client_id: "svc-admin", client_name: clientName(terminal) },
    Codes,
  );
  if ("error" in answer)
    throw new ActionFailure(exitCodes.notSignedIn, answer.description || answer.error);
  const codes = answer.value;
  err.write(
    `Open ${codes.verification_uri} on any machine and type the code\n\n  ${codes.user_code}\n\n`,
  );
  let intervalSeconds = codes.interval;
  const endsAt = clock.monotonic() + codes.expires_in * 1000;
  while (clock.monotonic() < endsAt) {
    await clock.sleep(intervalSeconds * 1000, signal);
    const grant_type = "urn:ietf:params:oauth:grant-type:device_code";
    const token = await requestToken(terminal, url, { grant_type, device_code: codes.device_code });
    if ("value" in token) return token.value;
    if (token.error === "slow_down") intervalSeconds += intervalSecondsAdded;
    // RFC 8628, 3.5: a temporary failure does not end the polling.
    else if (token.error !== "authorization_pending" && token.error !== "temporarily_unavailable")
      throw new ActionFailure(
        exitCodes.notSignedIn,
        refusals.get(token.error) ?? (token.description || token.error),
      );
  }
  throw new ActionFailure(exitCodes.notSignedIn, expired);
};

const expired = "nobody typed the code within its ten minutes";
const refusals = new Map([
  ["access_denied", "you refused the sign-in"],
  ["expired_token", expired],
]);
