import * as v from "valibot";
import type { ConfiguredCore } from "#functions/core.ts";
import { codeSeconds, issueCode, refuseConsent } from "#functions/domain/operator-session/codes.ts";
import { resource, webPerson } from "#functions/http/resource.ts";
import { Name, RemoteAddress } from "../shapes.ts";

/** The routes with which web signs a program in, or refuses it, after asking its person. */
export const authorizationRoutes = (core: ConfiguredCore) =>
  resource(core, "/v1/operator/authorizations", ({ post, act }) => ({
    createAuthorization: post(
      "",
      "Issue a code that signs a program in as the calling person; web calls this after the person has consented",
      {
        by: webPerson(core),
        body: v.strictObject({
          code_challenge: v.pipe(
            v.string("must be a string"),
            v.regex(/^[A-Za-z0-9_-]{43}$/, "must be BASE64URL(SHA-256(code_verifier))"),
          ),
          redirect_uri: LoopbackUri,
          client_name: Name,
        }),
        bodyExample: {
          code_challenge: "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM",
          redirect_uri: "http://127.0.0.1:49152/callback",
          client_name: "svc-admin on lovelace",
        },
        returns: [
          "The code, which is redeemed once at `/v1/operator/tokens`",
          v.strictObject({ code: v.string(), expires_in_seconds: v.number() }),
        ],
        handle: async ({ body, caller }) => {
          const {
            code_challenge: codeChallenge,
            redirect_uri: redirectUri,
            client_name: clientName,
          } = body;
          const code = await issueCode(core, caller, { codeChallenge, redirectUri, clientName });
          return { code, expires_in_seconds: codeSeconds };
        },
      },
    ),

    refuseAuthorization: act(
      "/refusals",
      "Record that the calling person refused to sign a program in; web calls this from its consent page",
      {
        by: webPerson(core),
        status: 204,
        body: v.strictObject({ client_name: Name, remote_addr: RemoteAddress }),
        bodyExample: { client_name: "svc-admin on lovelace", remote_addr: "192.0.2.7" },
        returns: ["Recorded"],
        handle: async ({ body, caller, origin }) => {
          await refuseConsent(
            core,
            caller,
            { clientName: body.client_name },
            { ...origin, remoteAddress: body.remote_addr },
          );
        },
      },
    ),
  }));

/** A URI of the loopback interface only (RFC 8252, 7.3). */
export const LoopbackUri = v.pipe(
  v.string("must be a URL"),
  v.maxLength(512, "must be at most 512 characters"),
  v.regex(
    /^http:\/\/(127\.0\.0\.1|\[::1\]):\d{1,5}\/[\w./-]*$/,
    "must be http://127.0.0.1:<port>/<path> or http://[::1]:<port>/<path>",
  ),
);
