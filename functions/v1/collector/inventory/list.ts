import * as v from "valibot";
import type { Core } from "#functions/core.ts";
import { compareWithFleet, inventoryEtag } from "#functions/domain/inventory/inventory.ts";
import { scope } from "#functions/http/guards.ts";
import { createCursorSeal, listFields } from "#functions/http/resource.ts";
import { route } from "#functions/http/route.ts";
import { rfc3339 } from "#kit/clock.ts";
import { inventoryStatuses } from "#proto/fleet-health/vocabulary.ts";
import { InventoryReport } from "#proto/inventory/inventory.ts";

const Query = v.strictObject({
  status: v.optional(
    v.picklist(inventoryStatuses, `must be one of ${inventoryStatuses.join(", ")}`),
  ),
  ...listFields,
});

/** `GET /v1/collector/inventory`: where the inventory and the fleet differ, by name. */
export const listInventoryRoute = (core: Pick<Core, "config" | "db" | "clock">) => {
  const cursors = createCursorSeal(core.config);
  return route({
    method: "GET",
    path: "/v1/collector/inventory",
    operationId: "listInventory",
    summary:
      "The hosts of the inventory and of the fleet by name, each with its status, and how many have which",
    guard: scope(core, "audit"),
    query: Query,
    replies: { 200: { description: "A page of hosts", schema: InventoryReport } },
    handle: async ({ query }) => {
      const { status, limit } = query;
      const list = `inventory ${status ?? ""}`;
      const [after = null] =
        query.cursor === undefined ? [] : await cursors.open(list, query.cursor);
      const statuses = status === undefined ? inventoryStatuses : [status];
      const now = core.clock.now();
      const { inventory, counts, page } = await compareWithFleet(core, statuses, { after, limit });
      const body: InventoryReport = {
        generated_at: rfc3339(now),
        etag: inventory ? inventoryEtag(inventory) : null,
        updated_at: inventory?.updatedAt.toISOString() ?? null,
        counts,
        items: page.rows,
        next_cursor: page.next && (await cursors.seal(list, [page.next])),
      };
      return { status: 200, body };
    },
  });
};
