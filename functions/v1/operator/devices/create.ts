import * as v from "valibot";
import type { SessionCore } from "#functions/domain/operator-session/begin-session.ts";
import { issueDeviceCodes } from "#functions/domain/operator-session/device-codes.ts";
import { webItself } from "#functions/http/guards.ts";
import { route, viewOf } from "#functions/http/route.ts";
import { Name, RemoteAddress } from "#functions/v1/shapes.ts";

const DeviceCodes = v.strictObject({
  device_code: v.string(),
  user_code: v.string(),
  expires_in_seconds: v.number(),
  interval_seconds: v.number(),
});

const codesView = viewOf(DeviceCodes);

/** `POST /v1/operator/devices`: web asks for the codes of a machine without a browser (RFC 8628, 3.1). */
export const createDeviceRoute = (core: SessionCore) =>
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
