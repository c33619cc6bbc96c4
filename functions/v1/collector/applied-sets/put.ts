import { AppliedSet, AppliedSetBody, appliedSetBytesMax } from "../../../../proto/applied-set/applied-set.ts";
import type { Core } from "../../../core.ts";
import { putAppliedSet } from "../../../domain/applied-set/applied-sets.ts";
import { scope } from "../../../http/guards.ts";
import { route } from "../../../http/route.ts";
import { AppliedSetParams, appliedSetView } from "./get.ts";

/** `PUT /v1/collector/applied-sets/{name}`: records what `svc-admin apply` made of a repository's files; changes nothing else. */
export const putAppliedSetRoute = (core: Pick<Core, "config" | "db" | "clock" | "entropy">) =>
  route({
    method: "PUT",
    path: "/v1/collector/applied-sets/:name",
    operationId: "putAppliedSet",
    summary: "Record what svc-admin apply made, at the revision that was read, 0 for none; it changes nothing else",
    guard: scope(core, "admin"),
    params: AppliedSetParams,
    body: AppliedSetBody,
    bodyBytesMax: appliedSetBytesMax,
    bodyExample: {
      revision: 0,
      content: {
        complete: true,
        policies: [{ name: "web servers", made: true }],
        watches: [],
        inventory: null,
        assignments: [],
      },
    },
    replies: { 200: { description: "The set with its new revision", schema: AppliedSet } },
    problems: ["conflict", "apply_in_progress"],
    handle: async ({ params, body, caller, origin }) => {
      const row = await putAppliedSet(core, caller, { ...params, ...body }, origin);
      return { status: 200, body: appliedSetView(row) };
    },
  });
