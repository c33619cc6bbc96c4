import * as v from "valibot";
import type { ConfiguredCore } from "#functions/core.ts";
import {
  decideDevice,
  findPendingDevice,
  issueDeviceCodes,
} from "#functions/domain/operator-session/codes.ts";
import { resource, webItself, webPerson } from "#functions/http/resource.ts";
import { route, viewOf } from "#functions/http/route.ts";
import { Name, RemoteAddress } from "#functions/v1/shapes.ts";
import { IsoTimestamp } from "#proto/values.ts";

/** The routes of a machine without a browser, whose person types a code (RFC 8628). */
export const deviceRoutes = (core: ConfiguredCore) =>
  resource(core, "/v1/operator/devices", ({ get, act }) => ({
    getDeviceAuthorization: get("/:user_code", "The machine that waits for a user code", {
      by: webPerson(core),
      params: Params,
      returns: [
        "The machine",
        v.strictObject({
          client_name: v.string(),
          remote_addr: v.string(),
          created_at: IsoTimestamp,
        }),
      ],
      problems: ["not_found"],
      handle: async ({ params }) => {
        const { clientName, remoteAddress, createdAt } = await findPendingDevice(
          core,
          params.user_code,
        );
        return {
          client_name: clientName,
          remote_addr: remoteAddress,
          created_at: createdAt.toISOString(),
        };
      },
    }),

    decideDeviceAuthorization: act(
      "/:user_code/decision",
      "Approve or refuse the machine that waits for a user code",
      {
        by: webPerson(core),
        status: 204,
        params: Params,
        body: v.strictObject({
          approved: v.boolean("must be true or false"),
          remote_addr: RemoteAddress,
        }),
        bodyExample: { approved: true, remote_addr: "192.0.2.7" },
        returns: ["Recorded"],
        problems: ["not_found"],
        handle: async ({ params, body, caller, origin }) => {
          const decision = { userCode: params.user_code, approved: body.approved };
          await decideDevice(core, caller, decision, {
            ...origin,
            remoteAddress: body.remote_addr,
          });
        },
      },
    ),
  }));

const Params = v.object({
  user_code: v.pipe(v.string(), v.maxLength(64, "must be at most 64 characters")),
});

const DeviceCodes = v.strictObject({
  device_code: v.string(),
  user_code: v.string(),
  expires_in_seconds: v.number(),
  interval_seconds: v.number(),
});

const codesView = viewOf(DeviceCodes);

/** `POST /v1/operator/devices`: web requests the codes of a machine without a browser (RFC 8628, 3.1). */
export const createDeviceRoute = (core: ConfiguredCore) =>
  route({
    method: "POST",
    path: "/v1/operator/devices",
    operationId: "createDeviceAuthorization",
    summary:
      "Issue the codes that sign a machine without a browser in; web calls this for the machine",
    guard: webItself(core),
    body: v.strictObject({ client_name: Name, remote_addr: RemoteAddress }),
    bodyExample: { client_name: "svc-admin on build-7", remote_addr: "192.0.2.7" },
    replies: {
      201: {
        description: "The codes: the machine polls with one, the person types the other",
        schema: DeviceCodes,
      },
    },
    handle: async ({ body, origin }) => {
      const request = { clientName: body.client_name };
      const codes = await issueDeviceCodes(core, request, {
        ...origin,
        remoteAddress: body.remote_addr,
      });
      return { status: 201, body: codesView(codes) };
    },
  });
