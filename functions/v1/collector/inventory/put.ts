import * as v from "valibot";
import type { Core } from "#functions/core.ts";
import {
  type ChangedInventory,
  inventoryEtag,
  putInventory,
} from "#functions/domain/inventory/inventory.ts";
import { scope } from "#functions/http/guards.ts";
import { route } from "#functions/http/route.ts";
import {
  Inventory,
  InventoryChange,
  inventoryBytesMax,
  inventoryChangesMax,
} from "#proto/inventory/inventory.ts";
import { readInventoryCsv } from "./inventory-csv.ts";

const Flag = v.optional(v.picklist(["true", "false"], "must be true or false"), "false");

/** `PUT /v1/collector/inventory`: the hosts that are expected, as a whole. */
export const putInventoryRoute = (core: Pick<Core, "config" | "db" | "clock" | "entropy">) =>
  route({
    method: "PUT",
    path: "/v1/collector/inventory",
    operationId: "putInventory",
    summary:
      "Replace the inventory of expected hosts by JSON or CSV; If-Match takes its ETag, dry_run=true only compares",
    guard: scope(core, "admin"),
    query: v.strictObject({ allow_empty: Flag, dry_run: Flag }),
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
      const given = { hosts: body.hosts, ifMatch };
      const options = {
        allowEmpty: query.allow_empty === "true",
        isDryRun: query.dry_run === "true",
      };
      const changed = await putInventory(core, caller, { ...given, ...options }, origin);
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
