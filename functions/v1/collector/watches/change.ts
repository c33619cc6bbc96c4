import { Watch, WatchChangeBody } from "../../../../proto/watch/watch.ts";
import { changeWatch, removeWatch, type WatchCore } from "../../../domain/watch/watches.ts";
import { scope } from "../../../http/guards.ts";
import { route } from "../../../http/route.ts";
import { IdParams } from "../../shapes.ts";
import { watchView } from "./watch.ts";

/** `PUT /v1/collector/watches/{id}`: replaces the definition of a watch. */
export const changeWatchRoute = (core: WatchCore) =>
  route({
    method: "PUT",
    path: "/v1/collector/watches/:id",
    operationId: "changeWatch",
    summary: "Replace the definition of a watch at the revision that was read; it is evaluated anew",
    guard: scope(core, "admin"),
    params: IdParams,
    body: WatchChangeBody,
    bodyExample: { name: "stale hosts", filter: "state:stale", more_than: 20, for_seconds: 600, revision: 1 },
    replies: { 200: { description: "The watch", schema: Watch } },
    problems: ["not_found", "conflict", "watch_name_taken"],
    handle: async ({ params, body, caller, origin }) => {
      const row = await changeWatch(core, caller, { ...params, ...body }, origin);
      return { status: 200, body: watchView(row) };
    },
  });

/** `DELETE /v1/collector/watches/{id}`: deletes a watch and its history. */
export const deleteWatchRoute = (core: WatchCore) =>
  route({
    method: "DELETE",
    path: "/v1/collector/watches/:id",
    operationId: "deleteWatch",
    summary: "Delete a watch with its history; receivers that know it as firing are told that it has ended",
    guard: scope(core, "admin"),
    params: IdParams,
    replies: { 204: { description: "The watch is deleted" } },
    problems: ["not_found"],
    handle: async ({ params, caller, origin }) => {
      await removeWatch(core, caller, params.id, origin);
      return { status: 204 };
    },
  });
