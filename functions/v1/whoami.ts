import * as v from "valibot";
import { type OperatorCore, scope } from "../http/guards.ts";
import { route } from "../http/route.ts";

const WhoamiView = v.strictObject({
  user_id: v.pipe(v.string(), v.uuid()),
  email: v.string(),
  scopes: v.array(v.picklist(["read", "audit", "admin"])),
});

/** `GET /v1/whoami`: who the bearer is to core (spec, "Whoami response"). */
export const whoami = (core: OperatorCore) =>
  route({
    method: "GET",
    path: "/v1/whoami",
    operationId: "whoami",
    summary: "The calling operator and the scopes held at this moment",
    guard: scope(core, "read"),
    replies: { 200: { description: "The caller", schema: WhoamiView } },
    handle: async ({ caller }) => ({
      status: 200,
      body: { user_id: caller.userId, email: caller.email, scopes: caller.scopes },
    }),
  });
