import { WatchDetail } from "../../../../proto/watch/watch.ts";
import type { Core } from "../../../core.ts";
import { describeWatch, findHold } from "../../../domain/watch/browse.ts";
import { scope } from "../../../http/guards.ts";
import { route } from "../../../http/route.ts";
import { IdParams } from "../../shapes.ts";
import { heldByView, watchView } from "./watch.ts";

/** `GET /v1/collector/watches/{id}`: one watch with its history. */
export const getWatchRoute = (core: Pick<Core, "config" | "db" | "clock">) =>
  route({
    method: "GET",
    path: "/v1/collector/watches/:id",
    operationId: "getWatch",
    summary: "One watch with its newest events, the newest first",
    guard: scope(core, "audit"),
    params: IdParams,
    replies: { 200: { description: "The watch", schema: WatchDetail } },
    problems: ["not_found"],
    handle: async ({ params }) => {
      const [{ watch, events }, hold] = await Promise.all([describeWatch(core, params.id), findHold(core)]);
      const body: WatchDetail = {
        ...watchView(watch),
        ...heldByView(hold),
        history: events.map(({ at, kind, count, receiver, detail }) => ({
          ...{ at: at.toISOString(), kind, count, receiver, detail },
        })),
      };
      return { status: 200, body };
    },
  });
