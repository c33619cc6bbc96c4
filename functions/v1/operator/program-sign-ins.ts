import * as v from "valibot";
import type { ConfiguredCore } from "#functions/core.ts";
import type { Origin } from "#functions/domain/audit/audit-log.ts";
import {
  codeSeconds,
  issueCode,
  redeemCode,
  refuseConsent,
} from "#functions/domain/operator-session/authorization-codes.ts";
import {
  decideDevice,
  findPendingDevice,
  issueDeviceCodes,
  redeemDeviceCode,
} from "#functions/domain/operator-session/device-codes.ts";
import { resource, webItself, webPerson } from "#functions/http/resource.ts";
import { viewOf } from "#functions/http/route.ts";
import { scopes } from "#proto/operator/scopes.ts";
import { Id, IsoTimestamp, inCamelCase, Text } from "#proto/values.ts";
import { LoopbackUri, Name, RemoteAddress } from "../shapes.ts";

/** A code that core has issued. */
const Code = v.pipe(Text, v.regex(/^[A-Za-z0-9_-]{1,128}$/, "must be a code of this server"));

/** A program, and its address as web saw it. */
const ProgramBody = v.strictObject({ client_name: Name, remote_addr: RemoteAddress });

/** Returns the origin of a request that web makes for a program: the address is the program's. */
const ofProgram = (origin: Origin, { remote_addr: remoteAddress }: { remote_addr: string }) => ({
  ...origin,
  remoteAddress,
});

/** The routes with which web signs a program in that its person has a browser for, or refuses it, after asking the person. */
export const authorizationRoutes = (core: ConfiguredCore) =>
  resource(core, "/v1/operator/authorizations", ({ post, act }) => ({
    createAuthorization: post(
      "",
      "Issue a code that signs a program in as the calling person; web calls this after the person has consented",
      {
        by: webPerson(core),
        body: v.strictObject({
          code_challenge: v.pipe(
            Text,
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
        handle: async ({ body, caller }) => ({
          code: await issueCode(core, caller, inCamelCase(body)),
          expires_in_seconds: codeSeconds,
        }),
      },
    ),

    refuseAuthorization: act(
      "/refusals",
      "Record that the calling person refused to sign a program in; web calls this from its consent page",
      {
        by: webPerson(core),
        status: 204,
        body: ProgramBody,
        bodyExample: { client_name: "svc-admin on lovelace", remote_addr: "192.0.2.7" },
        returns: ["Recorded"],
        handle: ({ body, caller, origin }) =>
          refuseConsent(core, caller, inCamelCase(body), ofProgram(origin, body)),
      },
    ),
  }));

const UserCodeParams = v.object({
  user_code: v.pipe(v.string(), v.maxLength(64, "must be at most 64 characters")),
});

const DeviceCodes = v.strictObject({
  device_code: v.string(),
  user_code: v.string(),
  expires_in_seconds: v.number(),
  interval_seconds: v.number(),
});

const PendingDevice = v.strictObject({
  client_name: v.string(),
  remote_addr: v.string(),
  created_at: IsoTimestamp,
});

const codesView = viewOf(DeviceCodes);
const deviceView = viewOf(PendingDevice);

/** The routes of a machine without a browser, whose person types a code (RFC 8628). */
export const deviceRoutes = (core: ConfiguredCore) =>
  resource(core, "/v1/operator/devices", ({ get, post, act }) => ({
    createDeviceAuthorization: post(
      "",
      "Issue the codes that sign a machine without a browser in; web calls this for the machine",
      {
        by: webItself(core),
        body: ProgramBody,
        bodyExample: { client_name: "svc-admin on build-7", remote_addr: "192.0.2.7" },
        returns: ["The codes: the machine polls with one, the person types the other", DeviceCodes],
        handle: async ({ body, origin }) =>
          codesView(await issueDeviceCodes(core, inCamelCase(body), ofProgram(origin, body))),
      },
    ),

    getDeviceAuthorization: get("/:user_code", "The machine that waits for a user code", {
      by: webPerson(core),
      params: UserCodeParams,
      returns: ["The machine", PendingDevice],
      problems: ["not_found"],
      handle: async ({ params }) => {
        const device = await findPendingDevice(core, params.user_code);
        return deviceView({ ...device, remoteAddr: device.remoteAddress });
      },
    }),

    decideDeviceAuthorization: act(
      "/:user_code/decision",
      "Approve or refuse the machine that waits for a user code",
      {
        by: webPerson(core),
        status: 204,
        params: UserCodeParams,
        body: v.strictObject({
          approved: v.boolean("must be true or false"),
          remote_addr: RemoteAddress,
        }),
        bodyExample: { approved: true, remote_addr: "192.0.2.7" },
        returns: ["Recorded"],
        problems: ["not_found"],
        handle: ({ params, body, caller, origin }) => {
          const decision = { userCode: params.user_code, approved: body.approved };
          return decideDevice(core, caller, decision, ofProgram(origin, body));
        },
      },
    ),
  }));

const TokenBody = v.variant(
  "grant_type",
  [
    v.strictObject({
      grant_type: v.literal("authorization_code"),
      code: Code,
      code_verifier: v.pipe(
        Text,
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

/** The route at which a program redeems its code, through web. */
export const codeRedemption = (core: ConfiguredCore) =>
  resource(core, "/v1/operator/tokens", ({ act }) => ({
    createSessionToken: act(
      "",
      "Redeem a code for a token of an hour; web calls this for the program",
      {
        by: webItself(core),
        body: TokenBody,
        bodyExample: {
          grant_type: "device_code",
          device_code: "GmRhmhcxhwAzkoEqiMEg_DnyEysNkuNhszIySk9eS",
          remote_addr: "192.0.2.7",
        },
        returns: [
          "The token, which carries its session; the scopes are those of this moment",
          v.strictObject({
            access_token: v.string(),
            token_type: v.literal("Bearer"),
            expires_in: v.number(),
            scopes: v.array(v.picklist(scopes)),
            session_id: Id,
          }),
        ],
        problems: [
          "invalid_grant",
          "authorization_pending",
          "slow_down",
          "access_denied",
          "expired_token",
        ],
        handle: async ({ body, origin }) => {
          const from = ofProgram(origin, body);
          const issued =
            body.grant_type === "authorization_code"
              ? await redeemCode(core, inCamelCase(body), from)
              : await redeemDeviceCode(core, inCamelCase(body), from);
          return {
            access_token: issued.accessToken,
            token_type: "Bearer" as const,
            expires_in: issued.expiresInSeconds,
            scopes: [...issued.scopes],
            session_id: issued.sessionId,
          };
        },
      },
    ),
  }));
