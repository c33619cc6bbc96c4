import * as v from "valibot";
import type { Core } from "#functions/core.ts";
import {
  browseWatches,
  changeWatch,
  createWatch,
  describeWatch,
  findHold,
  removeWatch,
  silenceWatch,
  testWatch,
  type WatchCore,
} from "#functions/domain/watch/watches.ts";
import { resource, severityField } from "#functions/http/resource.ts";
import { viewOf } from "#functions/http/route.ts";
import type { DescribedWatch } from "#functions/store/watch/watches.ts";
import { watchStates } from "#proto/watch/vocabulary.ts";
import {
  SilenceBody,
  Watch,
  WatchBody,
  WatchChangeBody,
  WatchDetail,
  WatchList,
} from "#proto/watch/watch.ts";
import { heldByView } from "./outages.ts";

/** The routes that read watches, which fire when more hosts match a filter than allowed. */
export const watchReports = (core: Pick<Core, "config" | "watches" | "db" | "clock">) =>
  resource(core, "/v1/collector/watches", ({ list, get }) => ({
    listWatches: list(
      "",
      "Watches and how they stand, newest first or by severity, and the receivers that core is configured with",
      {
        filter: {
          state: v.optional(v.picklist(watchStates, "must be inactive, pending or firing")),
          ...severityField,
        },
        returns: ["A page of watches", WatchList],
        find: (page, { query: { state, sort } }) =>
          browseWatches(core, state ? { states: [state] } : {}, { ...page, sort }),
        view: watchView,
        furtherMembers: async () => ({
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

const example = { name: "stale hosts", filter: "state:stale", more_than: 5, for_seconds: 600 };

/** The routes that define watches. */
export const watchChanges = (core: WatchCore) =>
  resource(core, "/v1/collector/watches", ({ post, put, remove }) => ({
    createWatch: post(
      "",
      "Watch a filter of the fleet: fires when more hosts match than allowed, for a time",
      {
        body: WatchBody,
        bodyExample: { ...example, receivers: ["on-call"] },
        returns: ["The watch, evaluated within seconds", Watch],
        problems: ["watch_name_taken", "too_many_watches"],
        handle: async ({ body, ...by }) => watchView(await createWatch(core, by, body)),
      },
    ),

    changeWatch: put(
      "/:id",
      "Replace the definition of a watch at the revision that was read; it is evaluated anew",
      {
        body: WatchChangeBody,
        bodyExample: { ...example, more_than: 20, revision: 1 },
        returns: ["The watch", Watch],
        problems: ["conflict", "watch_name_taken"],
        handle: async ({ params, body, ...by }) =>
          watchView(await changeWatch(core, by, { ...params, ...body })),
      },
    ),

    deleteWatch: remove(
      "/:id",
      "Delete a watch with its history; receivers that know it as firing are told that it has ended",
      {
        returns: ["The watch is deleted"],
        handle: ({ params, ...by }) => removeWatch(core, by, params.id),
      },
    ),
  }));

/** The routes that silence and test a watch. */
export const watchActs = (core: WatchCore) =>
  resource(core, "/v1/collector/watches", ({ act }) => ({
    silenceWatch: act(
      "/:id/silence",
      "Silence a watch for up to 30 days, or end its silence with 0 seconds",
      {
        body: SilenceBody,
        bodyExample: { seconds: 7200, reason: "the disks of rack 4 are being replaced" },
        returns: ["The watch", Watch],
        handle: async ({ params, body, ...by }) =>
          watchView(await silenceWatch(core, by, { ...params, ...body })),
      },
    ),

    testWatch: act(
      "/:id/test",
      "Send a test message to each receiver of a watch; its history shows what becomes of it",
      {
        status: 202,
        returns: ["The receivers", v.strictObject({ receivers: v.array(v.string()) })],
        problems: ["watch_without_receivers"],
        handle: async ({ params, ...by }) => ({
          receivers: [...(await testWatch(core, by, params.id))],
        }),
      },
    ),
  }));

const watchViewOf = viewOf(Watch);

/** Returns the view of a watch. */
const watchView = (row: DescribedWatch): Watch => {
  const { isFiring, firingSince, contrarySince, silencedUntil, silencedBy, silenceReason } = row;
  const quietState = contrarySince === null ? "inactive" : "pending";
  return watchViewOf({
    ...row,
    state: isFiring ? "firing" : quietState,
    since: isFiring ? firingSince : contrarySince,
    silence: silencedUntil && {
      until: silencedUntil,
      by: silencedBy ?? "",
      reason: silenceReason,
    },
  });
};
