import { Watch, WatchBody } from "../../../../proto/watch/watch.ts";
import { createWatch, type WatchCore } from "../../../domain/watch/watches.ts";
import { scope } from "../../../http/guards.ts";
import { route } from "../../../http/route.ts";
import { watchView } from "./watch.ts";

/** `POST /v1/collector/watches`: creates a watch. */
export const createWatchRoute = (core: WatchCore) =>
  route({
    method: "POST",
    path: "/v1/collector/watches",
    operationId: "createWatch",
    summary: "Watch a filter of the fleet: fires when more hosts match than allowed, for a time",
    guard: scope(core, "admin"),
    body: WatchBody,
    bodyExample: {
      name: "stale hosts",
      filter: "state:stale",
      more_than: 5,
      for_seconds: 600,
      receivers: ["on-call"],
    },
    replies: { 201: { description: "The watch, evaluated within seconds", schema: Watch } },
    problems: ["watch_name_taken", "too_many_watches"],
    handle: async ({ body, caller, origin }) => {
      return { status: 201, body: watchView(await createWatch(core, caller, body, origin)) };
    },
  });
