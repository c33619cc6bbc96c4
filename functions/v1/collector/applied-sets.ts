import * as v from "valibot";
import type { ConfiguredCore } from "#functions/core.ts";
import { getAppliedSet, putAppliedSet } from "#functions/domain/applied-set/applied-sets.ts";
import { resource } from "#functions/http/resource.ts";
import { viewOf } from "#functions/http/route.ts";
import {
  AppliedSet,
  AppliedSetBody,
  AppliedSetName,
  appliedSetBytesMax,
} from "#proto/applied-set/applied-set.ts";

const params = v.object({ name: AppliedSetName });
const view = viewOf(AppliedSet);

/** The routes of the sets that `svc-admin apply` stores for a repository's files; they change nothing else. */
export const appliedSetRoutes = (core: ConfiguredCore) =>
  resource(core, "/v1/collector/applied-sets", ({ get, put }) => ({
    getAppliedSet: get("/:name", "The objects that svc-admin apply manages for one set of files", {
      params,
      returns: ["The set", AppliedSet],
      problems: ["not_found"],
      handle: async ({ params: { name } }) => view(await getAppliedSet(core, name)),
    }),

    putAppliedSet: put(
      "/:name",
      "Record what svc-admin apply made, at the revision that was read, 0 for none; it changes nothing else",
      {
        params,
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
        returns: ["The set with its new revision", AppliedSet],
        problems: ["conflict", "apply_in_progress"],
        handle: async ({ params: { name }, body, ...by }) =>
          view(await putAppliedSet(core, by, { name, ...body })),
      },
    ),
  }));
