import type { Core } from "../../../core.ts";
import { getIdentity } from "../../../domain/certificate/identities.ts";
import { scope } from "../../../http/guards.ts";
import { route } from "../../../http/route.ts";
import { IdParams } from "../../shapes.ts";
import { IdentityView, identityView } from "./identity.ts";

/** `GET /v1/collector/identities/{id}`: one enrolled host. */
export const getIdentityRoute = (core: Pick<Core, "config" | "db" | "clock">) =>
  route({
    method: "GET",
    path: "/v1/collector/identities/:id",
    operationId: "getCollectorIdentity",
    summary: "One collector identity",
    guard: scope(core, "audit"),
    params: IdParams,
    replies: { 200: { description: "The identity", schema: IdentityView } },
    problems: ["not_found"],
    handle: async ({ params }) => ({ status: 200, body: identityView(await getIdentity(core, params.id)) }),
  });
