import * as v from "valibot";
import { watchStates } from "../../../../proto/watch/vocabulary.ts";
import { WatchList } from "../../../../proto/watch/watch.ts";
import type { Core } from "../../../core.ts";
import { browseWatches, findHold } from "../../../domain/watch/browse.ts";
import { scope } from "../../../http/guards.ts";
import { createList, listFields } from "../../../http/list.ts";
import { route } from "../../../http/route.ts";
import { heldByView, watchView } from "./watch.ts";

/** `GET /v1/collector/watches`: the watches, newest first. */
export const listWatchesRoute = (core: Pick<Core, "config" | "watches" | "db" | "clock">) => {
  const list = createList(core.config, "watches");
  const receivers = () => core.watches()?.receivers.map(({ name, target }) => ({ name, kind: target.kind })) ?? [];
  return route({
    method: "GET",
    path: "/v1/collector/watches",
    operationId: "listWatches",
    summary: "Watches and how they stand, newest first, and the receivers that core is configured with",
    guard: scope(core, "audit"),
    query: v.strictObject({
      state: v.optional(v.picklist(watchStates, "must be inactive, pending or firing")),
      ...listFields,
    }),
    replies: { 200: { description: "A page of watches", schema: WatchList } },
    handle: async ({ query: { state, ...query } }) => {
      const held = heldByView(await findHold(core));
      return list(
        query,
        (page) => browseWatches(core, state ? { states: [state] } : {}, page),
        watchView,
        () => ({ receivers: receivers(), ...held }),
      );
    },
  });
};
