import * as v from "valibot";
import { AppliedSet, AppliedSetName } from "../../../../proto/applied-set/applied-set.ts";
import type { Core } from "../../../core.ts";
import { getAppliedSet } from "../../../domain/applied-set/applied-sets.ts";
import { scope } from "../../../http/guards.ts";
import { route } from "../../../http/route.ts";
import { viewOf } from "../../../http/view-of.ts";

/** The parameter of `/v1/collector/applied-sets/{name}`. */
export const AppliedSetParams = v.object({ name: AppliedSetName });

/** Returns the view of a set. */
export const appliedSetView = viewOf(AppliedSet);

/** `GET /v1/collector/applied-sets/{name}`: what `svc-admin apply` last made of a repository's files. */
export const getAppliedSetRoute = (core: Pick<Core, "config" | "db" | "clock">) =>
  route({
    method: "GET",
    path: "/v1/collector/applied-sets/:name",
    operationId: "getAppliedSet",
    summary: "The objects that svc-admin apply manages for one set of files",
    guard: scope(core, "audit"),
    params: AppliedSetParams,
    replies: { 200: { description: "The set", schema: AppliedSet } },
    problems: ["not_found"],
    handle: async ({ params }) => ({ status: 200, body: appliedSetView(await getAppliedSet(core, params.name)) }),
  });
