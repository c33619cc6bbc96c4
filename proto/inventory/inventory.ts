/** The inventory of expected hosts (docs/inventory.md). */
import * as v from "valibot";
import { sha256 } from "#kit/bytes.ts";
import { type InventoryStatus, inventoryStatuses } from "../fleet-health/vocabulary.ts";
import { Labels } from "../labels.ts";
import { Id, Identifier, IsoTimestamp, ListUpTo, TextOrNull, TimestampOrNull } from "../values.ts";

/** The largest inventory as CSV or JSON, in bytes: below what one address may send at once. */
export const inventoryBytesMax = 12 * 1024 * 1024;

/** The most hosts of an inventory. */
export const inventoryHostsMax = 200_000;

/** A host that the inventory expects: its device id, or its whole identity. */
export const InventoryHost = v.strictObject({
  name: Identifier(2048),
  owner: v.optional(v.nullable(Identifier(256)), null),
  labels: v.optional(Labels, {}),
});

/** A host that the inventory expects. */
export type InventoryHost = v.InferOutput<typeof InventoryHost>;

/** Body of `PUT /v1/collector/inventory`; as CSV each host is a line. */
export const Inventory = v.strictObject({
  hosts: ListUpTo(inventoryHostsMax, InventoryHost),
});

/** Returns the SHA-256 of hosts in lowercase hex, the same for the same hosts in any order: quoted, the ETag of the inventory. */
export const inventoryDigest = async (hosts: readonly InventoryHost[]): Promise<string> => {
  const sorted = hosts.toSorted((a, b) => (a.name < b.name ? -1 : 1));
  const entries = sorted.map(({ name, owner, labels }) => [
    name,
    owner,
    Object.entries(labels).toSorted(),
  ]);
  return (await sha256(JSON.stringify(entries))).toHex();
};

/** The most changed names in a response. */
export const inventoryChangesMax = 1000;

/** Response of `PUT /v1/collector/inventory`: what the new inventory changes of the one before. */
export const InventoryChange = v.strictObject({
  /** Of the new inventory, as its header. */
  etag: v.string(),
  updated_at: IsoTimestamp,
  hosts: v.number(),
  added: v.number(),
  changed: v.number(),
  removed: v.number(),
  /** The first `inventoryChangesMax`, by name. */
  changes: v.array(
    v.strictObject({ name: v.string(), change: v.picklist(["added", "changed", "removed"]) }),
  ),
});

/** Response of `PUT /v1/collector/inventory`. */
export type InventoryChange = v.InferOutput<typeof InventoryChange>;

/** A host of the inventory, of the fleet, or of both. */
export const InventoryItem = v.strictObject({
  name: v.string(),
  status: v.picklist(inventoryStatuses),
  owner: TextOrNull,
  /** Those of the inventory. */
  labels: v.record(v.string(), v.string()),
  identity_id: v.nullable(Id),
  identity: TextOrNull,
});

/** A host of the inventory, of the fleet, or of both. */
export type InventoryItem = v.InferOutput<typeof InventoryItem>;

/** The hosts of each status. */
const InventoryCounts = v.strictObject(
  Object.fromEntries(inventoryStatuses.map((status) => [status, v.number()])) as Record<
    InventoryStatus,
    v.NumberSchema<undefined>
  >,
);

/** Response of `GET /v1/collector/inventory`. */
export const InventoryReport = v.strictObject({
  generated_at: IsoTimestamp,
  /** Of the inventory, for `If-Match`. */
  etag: TextOrNull,
  /** When the inventory changed last; null without one, and then there are no counts and items. */
  updated_at: TimestampOrNull,
  counts: v.nullable(InventoryCounts),
  items: v.array(InventoryItem),
  next_cursor: TextOrNull,
});

/** Response of `GET /v1/collector/inventory`. */
export type InventoryReport = v.InferOutput<typeof InventoryReport>;
