import * as v from "valibot";
import type { ConfiguredCore, ReadCore } from "#functions/core.ts";
import {
  type ChangedInventory,
  compareWithFleet,
  inventoryEtag,
  putInventory,
} from "#functions/domain/inventory/inventory.ts";
import { createCursorSeal, listFields, resource, scope } from "#functions/http/resource.ts";
import { route } from "#functions/http/route.ts";
import { rfc3339 } from "#kit/clock.ts";
import { inventoryStatuses } from "#proto/fleet-health/vocabulary.ts";
import {
  Inventory,
  InventoryChange,
  InventoryReport,
  inventoryBytesMax,
  inventoryChangesMax,
} from "#proto/inventory/inventory.ts";
import { QueryFlag } from "#proto/values.ts";
import { readInventoryCsv } from "./inventory/inventory-csv.ts";

/** The route that compares the inventory with the fleet, by name. */
export const inventoryReports = (core: ReadCore) => {
  const cursors = createCursorSeal(core.config);
  return resource(core, "/v1/collector/inventory", ({ get }) => ({
    listInventory: get(
      "",
      "The hosts of the inventory and of the fleet by name, each with its status, and how many have which",
      {
        query: Query,
        returns: ["A page of hosts", InventoryReport],
        handle: async ({ query }) => {
          const { status, limit } = query;
          const list = `inventory ${status ?? ""}`;
          const [after = null] =
            query.cursor === undefined ? [] : await cursors.open(list, query.cursor);
          const statuses = status === undefined ? inventoryStatuses : [status];
          const now = core.clock.now();
          const { inventory, counts, page } = await compareWithFleet(core, statuses, {
            after,
            limit,
          });
          return {
            generated_at: rfc3339(now),
            etag: inventory ? inventoryEtag(inventory) : null,
            updated_at: inventory?.updatedAt.toISOString() ?? null,
            counts,
            items: page.rows,
            next_cursor: page.next && (await cursors.seal(list, [page.next])),
          };
        },
      },
    ),
  }));
};

const Query = v.strictObject({
  status: v.optional(
    v.picklist(inventoryStatuses, `must be one of ${inventoryStatuses.join(", ")}`),
  ),
  ...listFields,
});

/** `PUT /v1/collector/inventory`: replaces the whole list of expected hosts. */
export const putInventoryRoute = (core: ConfiguredCore) =>
  route({
    method: "PUT",
    path: "/v1/collector/inventory",
    operationId: "putInventory",
    summary:
      "Replace the inventory of expected hosts by JSON or CSV; If-Match takes its ETag, dry_run=true only compares",
    guard: scope(core, "admin"),
    query: v.strictObject({ allow_empty: QueryFlag, dry_run: QueryFlag }),
    body: Inventory,
    textBody: { type: "text/csv", read: readInventoryCsv },
    bodyBytesMax: inventoryBytesMax,
    bodyExample: { hosts: [{ name: "web-17", owner: "shop", labels: { env: "prod" } }] },
    replies: {
      200: {
        description: "The hosts that it adds, changes and removes, with an `ETag`",
        schema: InventoryChange,
      },
    },
    problems: ["inventory_invalid", "inventory_empty", "inventory_changed"],
    handle: async ({ query, body, caller, origin, ifMatch }) => {
      const inventory = {
        hosts: body.hosts,
        ifMatch,
        allowEmpty: query.allow_empty,
        isDryRun: query.dry_run,
      };
      const changed = await putInventory(core, caller, inventory, origin);
      const etag = inventoryEtag(changed);
      return { status: 200, body: changeView(changed, etag), headers: { ETag: etag } };
    },
  });

const changeView = (
  { updatedAt, hosts, changes }: ChangedInventory,
  etag: string,
): InventoryChange => {
  const kinds = ["added", "changed", "removed"] as const;
  const named = kinds.flatMap((change) => changes[change].names.map((name) => ({ name, change })));
  return {
    etag,
    updated_at: updatedAt.toISOString(),
    hosts,
    added: changes.added.hosts,
    changed: changes.changed.hosts,
    removed: changes.removed.hosts,
    changes: named.sort((a, b) => (a.name < b.name ? -1 : 1)).slice(0, inventoryChangesMax),
  };
};
