import * as v from "valibot";
import { SilenceBody, Watch } from "../../../../proto/watch/watch.ts";
import { silenceWatch, testWatch, type WatchCore } from "../../../domain/watch/watches.ts";
import { scope } from "../../../http/guards.ts";
import { route } from "../../../http/route.ts";
import { IdParams } from "../../shapes.ts";
import { watchView } from "./watch.ts";

/** `POST /v1/collector/watches/{id}/silence`: holds its messages back for a time. */
export const silenceWatchRoute = (core: WatchCore) =>
  route({
    method: "POST",
    path: "/v1/collector/watches/:id/silence",
    operationId: "silenceWatch",
    summary: "Silence a watch for up to 30 days, or end its silence with 0 seconds",
    guard: scope(core, "admin"),
    params: IdParams,
    body: SilenceBody,
    bodyExample: { seconds: 7200, reason: "the disks of rack 4 are being replaced" },
    replies: { 200: { description: "The watch", schema: Watch } },
    problems: ["not_found"],
    handle: async ({ params, body, caller, origin }) => {
      const row = await silenceWatch(core, caller, { ...params, ...body }, origin);
      return { status: 200, body: watchView(row) };
    },
  });

/** `POST /v1/collector/watches/{id}/test`: sends a test to its receivers. */
export const testWatchRoute = (core: WatchCore) =>
  route({
    method: "POST",
    path: "/v1/collector/watches/:id/test",
    operationId: "testWatch",
    summary: "Send a test message to each receiver of a watch; its history shows what becomes of it",
    guard: scope(core, "admin"),
    params: IdParams,
    replies: { 202: { description: "The receivers", schema: v.strictObject({ receivers: v.array(v.string()) }) } },
    problems: ["not_found", "watch_without_receivers"],
    handle: async ({ params, caller, origin }) => ({
      status: 202,
      body: { receivers: await testWatch(core, caller, params.id, origin) },
    }),
  });
