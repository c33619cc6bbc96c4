import { Whoami } from "#proto/operator/whoami.ts";
import type { ReadCore } from "../core.ts";
import { scope } from "../http/resource.ts";
import { route } from "../http/route.ts";

/** `GET /v1/whoami`: the operator of the bearer token. */
export const whoami = (core: ReadCore) =>
  route({
    method: "GET",
    path: "/v1/whoami",
    operationId: "whoami",
    summary: "The calling operator and their current scopes",
    guard: scope(core, "read"),
    replies: { 200: { description: "The caller", schema: Whoami } },
    handle: async ({ caller }) => ({
      status: 200,
      body: { user_id: caller.userId, email: caller.email, scopes: caller.scopes },
    }),
  });
