import * as v from "valibot";
import type { ConfiguredCore } from "#functions/core.ts";
import { nudgeHost, nudges } from "#functions/domain/certificate/identities.ts";
import { getDiag, readDiag, requestDiag } from "#functions/domain/fleet/diags.ts";
import { downloadName } from "#functions/http/download.ts";
import { resource, scope } from "#functions/http/resource.ts";
import { route, viewOf } from "#functions/http/route.ts";
import { HostDiagView } from "#proto/operator/host-diag.ts";
import { Id } from "#proto/values.ts";

/** The routes that make a host act now: report, renew, send its diagnostics. */
export const hostActions = (core: ConfiguredCore) =>
  resource(core, "/v1/collector/hosts", ({ act, post, get }) => ({
    nudgeHost: act(
      "/:id/nudges",
      "Have a host renew its certificate, report or restart now: at once on its stream, else with its next heartbeat",
      {
        status: 204,
        body: NudgeBody,
        bodyExample: { action: "renew_now" },
        returns: ["Sent"],
        problems: ["conflict"],
        handle: async ({ params, body, ...by }) => {
          await nudgeHost(core, by, { identityId: params.id, ...body });
        },
      },
    ),

    requestHostDiag: post(
      "/:id/diags",
      "Request the diagnostics of a host; returns the open request, if there is one",
      {
        returns: ["The request", HostDiagView],
        problems: ["conflict"],
        handle: async ({ params, ...by }) => {
          const diag = await requestDiag(core, by, { identityId: params.id });
          return diagView(diag);
        },
      },
    ),

    getHostDiag: get(
      "/:id/diags/:diag",
      "Whether a host has answered a request for its diagnostics",
      {
        by: "admin",
        params: DiagParams,
        returns: ["The request", HostDiagView],
        handle: async ({ params }) =>
          diagView(await getDiag(core, { identityId: params.id, diagId: params.diag })),
      },
    ),
  }));

const NudgeBody = v.strictObject({
  action: v.picklist(nudges, `must be one of ${nudges.join(", ")}`),
});

const DiagBundle = v.record(v.string(), v.unknown());

const DiagParams = v.object({ id: Id, diag: Id });

const diagView = viewOf(HostDiagView);

/** `GET /v1/collector/hosts/{id}/diags/{diag}/bundle`: the bundle from a host, as a file; audited. */
export const readDiagRoute = (core: ConfiguredCore) =>
  route({
    method: "GET",
    path: "/v1/collector/hosts/:id/diags/:diag/bundle",
    operationId: "readHostDiag",
    summary:
      "The diagnostics that a host has sent, as `svc-collector diag` prints them; kept for a day",
    guard: scope(core, "admin"),
    params: DiagParams,
    replies: { 200: { description: "The bundle, as the host sent it", schema: DiagBundle } },
    problems: ["not_found", "diag_pending", "diag_forbidden", "diag_too_large", "diag_unanswered"],
    handle: async ({ params, ...by }) => {
      const ids = { identityId: params.id, diagId: params.diag };
      const { identity, bundle } = await readDiag(core, by, ids);
      const now = new Date(core.clock.now());
      const fileName = downloadName(`diag-${identity.deviceId}`, {}, now, "json");
      return {
        status: 200,
        text: { type: "application/json", content: bundle },
        headers: { "Content-Disposition": `attachment; filename="${fileName}"` },
      };
    },
  });
