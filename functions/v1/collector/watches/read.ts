import * as v from "valibot";
import type { Core } from "#functions/core.ts";
import { browseWatches, describeWatch, findHold } from "#functions/domain/watch/browse.ts";
import { resource } from "#functions/http/resource.ts";
import { viewOf } from "#functions/http/route.ts";
import type { Outage } from "#functions/store/fleet/counted-time.ts";
import { watchStates } from "#proto/watch/vocabulary.ts";
import { WatchDetail, WatchList } from "#proto/watch/watch.ts";
import { outagesView } from "../outages.ts";
import { watchView } from "./watch.ts";

/** The routes that read watches, which fire when more hosts match a filter than allowed. */
export const watchReports = (core: Pick<Core, "config" | "watches" | "db" | "clock">) =>
  resource(core, "/v1/collector/watches", { read: "audit", write: "admin" }, ({ list, get }) => ({
    listWatches: list(
      "",
      "Watches and how they stand, newest first, and the receivers that core is configured with",
      {
        filter: {
          state: v.optional(v.picklist(watchStates, "must be inactive, pending or firing")),
        },
        returns: ["A page of watches", WatchList],
        find: (page, { query: { state } }) =>
          browseWatches(core, state ? { states: [state] } : {}, page),
        view: watchView,
        more: async () => ({
          receivers:
            core.watches()?.receivers.map(({ name, target }) => ({ name, kind: target.kind })) ??
            [],
          ...heldByView(await findHold(core)),
        }),
      },
    ),

    getWatch: get("/:id", "One watch with its newest events, the newest first", {
      returns: ["The watch", WatchDetail],
      handle: async ({ params }) => {
        const [{ watch, events }, hold] = await Promise.all([
          describeWatch(core, params.id),
          findHold(core),
        ]);
        return { ...watchView(watch), ...heldByView(hold), history: events.map(eventView) };
      },
    }),
  }));

const eventView = viewOf(WatchDetail.entries.history.item);

/** Returns the outage that holds every watch, as an optional property. */
const heldByView = (outage: Outage | undefined) => {
  const [held_by] = outagesView(outage ? [outage] : []).outages ?? [];
  return held_by ? { held_by } : {};
};
