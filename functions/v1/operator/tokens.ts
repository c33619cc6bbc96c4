import * as v from "valibot";
import type { ConfiguredCore } from "#functions/core.ts";
import { redeemCode, redeemDeviceCode } from "#functions/domain/operator-session/codes.ts";
import { webItself } from "#functions/http/resource.ts";
import { route } from "#functions/http/route.ts";
import { scopes } from "#proto/operator/scopes.ts";
import { Id } from "#proto/values.ts";
import { RemoteAddress } from "../shapes.ts";
import { LoopbackUri } from "./authorizations.ts";

const Code = v.pipe(
  v.string("must be a string"),
  v.regex(/^[A-Za-z0-9_-]{1,128}$/, "must be a code of this server"),
);

const TokenBody = v.variant(
  "grant_type",
  [
    v.strictObject({
      grant_type: v.literal("authorization_code"),
      code: Code,
      code_verifier: v.pipe(
        v.string("must be a string"),
        v.regex(/^[A-Za-z0-9._~-]{43,128}$/, "must be 43 to 128 unreserved characters"),
      ),
      redirect_uri: LoopbackUri,
      remote_addr: RemoteAddress,
    }),
    v.strictObject({
      grant_type: v.literal("device_code"),
      device_code: Code,
      remote_addr: RemoteAddress,
    }),
  ],
  "must be authorization_code or device_code",
);

/** `POST /v1/operator/tokens`: a program redeems its code, through web. */
export const createTokenOfSessionRoute = (core: ConfiguredCore) =>
  route({
    method: "POST",
    path: "/v1/operator/tokens",
    operationId: "createSessionToken",
    summary: "Redeem a code for a token of an hour; web calls this for the program",
    guard: webItself(core),
    body: TokenBody,
    bodyExample: {
      grant_type: "device_code",
      device_code: "GmRhmhcxhwAzkoEqiMEg_DnyEysNkuNhszIySk9eS",
      remote_addr: "192.0.2.7",
    },
    replies: {
      200: {
        description: "The token, which carries its session; the scopes are those of this moment",
        schema: v.strictObject({
          access_token: v.string(),
          token_type: v.literal("Bearer"),
          expires_in: v.number(),
          scopes: v.array(v.picklist(scopes)),
          session_id: Id,
        }),
      },
    },
    problems: [
      "invalid_grant",
      "authorization_pending",
      "slow_down",
      "access_denied",
      "expired_token",
    ],
    handle: async ({ body, origin }) => {
      const from = { ...origin, remoteAddress: body.remote_addr };
      const issued =
        body.grant_type === "authorization_code"
          ? await redeemCode(
              core,
              { code: body.code, codeVerifier: body.code_verifier, redirectUri: body.redirect_uri },
              from,
            )
          : await redeemDeviceCode(core, { deviceCode: body.device_code }, from);
      return {
        status: 200,
        body: {
          access_token: issued.accessToken,
          token_type: "Bearer",
          expires_in: issued.expiresInSeconds,
          scopes: issued.scopes,
          session_id: issued.sessionId,
        },
      };
    },
  });
