import { hash } from "node:crypto";

const verifier = "dBjftJeZ4CVP-mBAx7DwiFd5RzJsr9GWOUqKR5cCEUQ";

/** What a program asks a person to consent to, as svc-admin does. */
export const consentRequest = {
  response_type: "code",
  client_id: "svc-admin",
  redirect_uri: "http://127.0.0.1:49152/callback",
  code_challenge: hash("sha256", verifier, "base64url"),
  code_challenge_method: "S256",
  state: "a-state-of-sixteen",
  client_name: "svc-admin on <lovelace>",
};

/** Returns the path of the page that asks for consent; `changes` replace fields of the request. */
export const consentPath = (changes: Readonly<Record<string, string>> = {}) =>
  `/cli/authorize?${new URLSearchParams({ ...consentRequest, ...changes })}`;

/** Returns the form by which the program redeems a code. */
export const redemptionOf = (code: string) => ({
  grant_type: "authorization_code",
  code,
  code_verifier: verifier,
  redirect_uri: consentRequest.redirect_uri,
});
