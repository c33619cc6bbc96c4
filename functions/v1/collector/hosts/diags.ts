import * as v from "valibot";
import type { Core } from "#functions/core.ts";
import { getDiag, readDiag, requestDiag } from "#functions/domain/fleet/diags.ts";
import { downloadName } from "#functions/http/download.ts";
import { scope } from "#functions/http/guards.ts";
import { IdParams } from "#functions/http/resource.ts";
import { route, viewOf } from "#functions/http/route.ts";
import { HostDiagView } from "#proto/operator/host-diag.ts";
import { Id } from "#proto/values.ts";

type Needs = Pick<Core, "config" | "db" | "clock" | "entropy">;

const DiagBundle = v.record(v.string(), v.unknown());

const DiagParams = v.object({ id: Id, diag: Id });

const diagView = viewOf(HostDiagView);

/** `POST /v1/collector/hosts/{id}/diags`: requests a host's diagnostics. */
export const requestDiagRoute = (core: Needs) =>
  route({
    method: "POST",
    path: "/v1/collector/hosts/:id/diags",
    operationId: "requestHostDiag",
    summary: "Request the diagnostics of a host; returns the open request, if there is one",
    guard: scope(core, "admin"),
    params: IdParams,
    replies: { 201: { description: "The request", schema: HostDiagView } },
    problems: ["not_found", "conflict"],
    handle: async ({ params, caller, origin }) => {
      const diag = await requestDiag(core, caller, { identityId: params.id }, origin);
      return { status: 201, body: diagView(diag) };
    },
  });

/** `GET /v1/collector/hosts/{id}/diags/{diag}`: the state of a request. */
export const getDiagRoute = (core: Needs) =>
  route({
    method: "GET",
    path: "/v1/collector/hosts/:id/diags/:diag",
    operationId: "getHostDiag",
    summary: "Whether a host has answered a request for its diagnostics",
    guard: scope(core, "admin"),
    params: DiagParams,
    replies: { 200: { description: "The request", schema: HostDiagView } },
    problems: ["not_found"],
    handle: async ({ params }) => ({
      status: 200,
      body: diagView(await getDiag(core, { identityId: params.id, diagId: params.diag })),
    }),
  });

/** `GET /v1/collector/hosts/{id}/diags/{diag}/bundle`: the bundle that a host has sent, as a file; audited. */
export const readDiagRoute = (core: Needs) =>
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
    handle: async ({ params, caller, origin }) => {
      const of = { identityId: params.id, diagId: params.diag };
      const { identity, bundle } = await readDiag(core, caller, of, origin);
      const fileName = downloadName(
        `diag-${identity.deviceId}`,
        {},
        new Date(core.clock.now()),
        "json",
      );
      return {
        status: 200,
        text: { type: "application/json", content: bundle },
        headers: { "Content-Disposition": `attachment; filename="${fileName}"` },
      };
    },
  });
