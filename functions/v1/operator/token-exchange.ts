import * as v from "valibot";
import type { ConfiguredCore } from "#functions/core.ts";
import { createTokenExchange } from "#functions/domain/workload/exchange-token.ts";
import { anyone, resource } from "#functions/http/resource.ts";
import { Problem } from "#functions/problems.ts";
import { formBytesMax, formMediaType, parseForm } from "#kit/form.ts";

/** RFC 8693, 2.1. Callers do not choose audience, resource and scope: the issuers' file decides. */
const ExchangeBody = v.strictObject({
  grant_type: v.literal("urn:ietf:params:oauth:grant-type:token-exchange"),
  subject_token: v.pipe(v.string("must be a string"), v.nonEmpty("is required")),
  subject_token_type: v.picklist(
    ["urn:ietf:params:oauth:token-type:jwt", "urn:ietf:params:oauth:token-type:id_token"],
    "must be a JWT or an id_token",
  ),
});

/** The route at which a workload exchanges the token of its platform for one of core. */
export const tokenExchange = (core: ConfiguredCore) => {
  const exchange = createTokenExchange(core);
  return resource(core, "/v1/operator", ({ act }) => ({
    exchangeToken: act(
      "/token-exchange",
      "Exchange a workload's OpenID Connect token for a bearer token of 15 minutes (RFC 8693)",
      {
        by: anyone,
        body: ExchangeBody,
        bodyExample: {
          grant_type: "urn:ietf:params:oauth:grant-type:token-exchange",
          subject_token: "eyJhbGciOiJSUzI1NiJ9.e30.c2ln",
          subject_token_type: "urn:ietf:params:oauth:token-type:jwt",
        },
        textBody: { type: formMediaType, read: readForm },
        bodyBytesMax: formBytesMax,
        returns: [
          "The token; its scopes are those of the issuers' file at each request",
          v.strictObject({
            access_token: v.string(),
            issued_token_type: v.literal("urn:ietf:params:oauth:token-type:access_token"),
            token_type: v.literal("Bearer"),
            expires_in: v.number(),
            scope: v.string(),
          }),
        ],
        problems: ["invalid_grant", "throttled", "issuer_unavailable"],
        handle: async ({ body, origin }) => {
          const issued = await exchange(body.subject_token, origin);
          return {
            access_token: issued.accessToken,
            issued_token_type: "urn:ietf:params:oauth:token-type:access_token" as const,
            token_type: "Bearer" as const,
            expires_in: issued.expiresInSeconds,
            scope: issued.scopes.join(" "),
          };
        },
      },
    ),
  }));
};

const readForm = (text: string): Record<string, string> => {
  const fields = parseForm(text);
  if (fields !== undefined) return fields;
  const message = "must be a form with valid percent-encoding that names each field once";
  throw new Problem("validation_failed", { errors: [{ path: "", message }] });
};
