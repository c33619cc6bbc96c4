import * as v from "valibot";
import {
  changeWatch,
  createWatch,
  removeWatch,
  silenceWatch,
  testWatch,
  type WatchCore,
} from "#functions/domain/watch/watches.ts";
import { resource } from "#functions/http/resource.ts";
import { SilenceBody, Watch, WatchBody, WatchChangeBody } from "#proto/watch/watch.ts";
import { watchView } from "./watch.ts";

const callers = { read: "audit", write: "admin" } as const;
const example = { name: "stale hosts", filter: "state:stale", more_than: 5, for_seconds: 600 };

/** The routes that define watches. */
export const watchChanges = (core: WatchCore) =>
  resource(core, "/v1/collector/watches", callers, ({ post, put, remove }) => ({
    createWatch: post(
      "",
      "Watch a filter of the fleet: fires when more hosts match than allowed, for a time",
      {
        body: WatchBody,
        bodyExample: { ...example, receivers: ["on-call"] },
        returns: ["The watch, evaluated within seconds", Watch],
        problems: ["watch_name_taken", "too_many_watches"],
        handle: async ({ body, caller, origin }) =>
          watchView(await createWatch(core, caller, body, origin)),
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
        handle: async ({ params, body, caller, origin }) =>
          watchView(await changeWatch(core, caller, { ...params, ...body }, origin)),
      },
    ),

    deleteWatch: remove(
      "/:id",
      "Delete a watch with its history; receivers that know it as firing are told that it has ended",
      {
        returns: ["The watch is deleted"],
        handle: ({ params, caller, origin }) => removeWatch(core, caller, params.id, origin),
      },
    ),
  }));

/** The routes that silence and test a watch. */
export const watchActs = (core: WatchCore) =>
  resource(core, "/v1/collector/watches", callers, ({ act }) => ({
    silenceWatch: act(
      "/:id/silence",
      "Silence a watch for up to 30 days, or end its silence with 0 seconds",
      {
        body: SilenceBody,
        bodyExample: { seconds: 7200, reason: "the disks of rack 4 are being replaced" },
        returns: ["The watch", Watch],
        handle: async ({ params, body, caller, origin }) =>
          watchView(await silenceWatch(core, caller, { ...params, ...body }, origin)),
      },
    ),

    testWatch: act(
      "/:id/test",
      "Send a test message to each receiver of a watch; its history shows what becomes of it",
      {
        status: 202,
        returns: ["The receivers", v.strictObject({ receivers: v.array(v.string()) })],
        problems: ["watch_without_receivers"],
        handle: async ({ params, caller, origin }) => ({
          receivers: [...(await testWatch(core, caller, params.id, origin))],
        }),
      },
    ),
  }));
