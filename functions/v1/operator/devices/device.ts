import * as v from "valibot";
import type { SessionCore } from "#functions/domain/operator-session/begin-session.ts";
import {
  decideDevice,
  findPendingDevice,
} from "#functions/domain/operator-session/device-codes.ts";
import { webPerson } from "#functions/http/guards.ts";
import { route } from "#functions/http/route.ts";
import { RemoteAddress } from "#functions/v1/shapes.ts";
import { IsoTimestamp } from "#proto/values.ts";

const Params = v.object({
  user_code: v.pipe(v.string(), v.maxLength(64, "must be at most 64 characters")),
});

/** `GET /v1/operator/devices/{user_code}`: the machine that waits for a code, for the consent page. */
export const getDeviceRoute = (core: SessionCore) =>
  route({
    method: "GET",
    path: "/v1/operator/devices/:user_code",
    operationId: "getDeviceAuthorization",
    summary: "The machine that waits for a user code",
    guard: webPerson(core),
    params: Params,
    replies: {
      200: {
        description: "The machine",
        schema: v.strictObject({
          client_name: v.string(),
          remote_addr: v.string(),
          created_at: IsoTimestamp,
        }),
      },
    },
    problems: ["not_found"],
    handle: async ({ params }) => {
      const { clientName, remoteAddress, createdAt } = await findPendingDevice(
        core,
        params.user_code,
      );
      const body = {
        client_name: clientName,
        remote_addr: remoteAddress,
        created_at: createdAt.toISOString(),
      };
      return { status: 200, body };
    },
  });

/** `POST /v1/operator/devices/{user_code}/decision`: the person approves or refuses the machine. */
export const decideDeviceRoute = (core: SessionCore) =>
  route({
    method: "POST",
    path: "/v1/operator/devices/:user_code/decision",
    operationId: "decideDeviceAuthorization",
    summary: "Approve or refuse the machine that waits for a user code",
    guard: webPerson(core),
    params: Params,
    body: v.strictObject({
      approved: v.boolean("must be true or false"),
      remote_addr: RemoteAddress,
    }),
    bodyExample: { approved: true, remote_addr: "192.0.2.7" },
    replies: { 204: { description: "Recorded" } },
    problems: ["not_found"],
    handle: async ({ params, body, caller, origin }) => {
      const decision = { userCode: params.user_code, approved: body.approved };
      await decideDevice(core, caller, decision, { ...origin, remoteAddress: body.remote_addr });
      return { status: 204 };
    },
  });
