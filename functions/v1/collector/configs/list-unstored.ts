import { UnstoredConfigs } from "../../../../proto/fleet-health/config-report.ts";
import type { Core } from "../../../core.ts";
import { findUnstored } from "../../../domain/config/config-reports.ts";
import { scope } from "../../../http/guards.ts";
import { route } from "../../../http/route.ts";
import { viewOf } from "../../../http/view-of.ts";

const itemView = viewOf(UnstoredConfigs.entries.items.item);

/** `GET /v1/collector/configs/unstored`: hashes that hosts run and no published config has, those with the most hosts first. */
export const listUnstoredConfigsRoute = (core: Pick<Core, "config" | "db" | "clock">) =>
  route({
    method: "GET",
    path: "/v1/collector/configs/unstored",
    operationId: "listUnstoredConfigs",
    summary: "Hashes of configs that hosts run and that were never published",
    guard: scope(core, "audit"),
    replies: { 200: { description: "The hashes with the most hosts", schema: UnstoredConfigs } },
    handle: async () => {
      const { now, rows, hashes } = await findUnstored(core);
      const body: UnstoredConfigs = { generated_at: now.toISOString(), hashes, items: rows.map(itemView) };
      return { status: 200, body };
    },
  });
