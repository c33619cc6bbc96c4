import type { ReadCore, WriteCore } from "#functions/core.ts";
import { Problem } from "#functions/problems.ts";
import type { Paged, PageRequest } from "#functions/store/database/statements.ts";
import * as store from "#functions/store/inventory/inventory.ts";
import {
  type InventoryChanges,
  type InventoryRow,
  lockInventory,
} from "#functions/store/inventory/inventory.ts";
import type { InventoryStatus } from "#proto/fleet-health/vocabulary.ts";
import {
  type InventoryHost,
  type InventoryItem,
  inventoryDigest,
} from "#proto/inventory/inventory.ts";
import { type By, recordOperatorAction } from "../audit/audit-log.ts";
import { readFleetRules } from "../fleet/rules.ts";

/** A whole inventory that replaces the current one. */
interface NewInventory {
  hosts: readonly InventoryHost[];
  /** The `If-Match` header; empty without one. */
  ifMatch: string;
  /** Whether it may have no host. */
  allowEmpty: boolean;
  /** Compares without changing anything. */
  isDryRun: boolean;
}

/** The inventory after a change, and the change. */
export interface ChangedInventory extends InventoryRow {
  changes: InventoryChanges;
}

/** Returns the ETag of an inventory. */
export const inventoryEtag = ({ sha256: hex }: Pick<InventoryRow, "sha256">): string => `"${hex}"`;

/**
 * Replaces the inventory in one transaction, audited; does nothing for the same one. Throws 422 `inventory_empty`, 422 `inventory_invalid`
 * for a repeated name, and 412 `inventory_changed` for another ETag than the current one.
 */
export const putInventory = async (
  core: WriteCore,
  by: By,
  { hosts, ifMatch, allowEmpty, isDryRun }: NewInventory,
): Promise<ChangedInventory> => {
  if (hosts.length === 0 && !allowEmpty) throw new Problem("inventory_empty");
  refuseTwice(hosts);
  const digest = await inventoryDigest(hosts);
  return core.db.transaction(async (tx) => {
    const before = await lockInventory(tx);
    if (!matches(ifMatch, before))
      throw new Problem("inventory_changed", {
        extensions: { etag: before ? inventoryEtag(before) : null },
      });
    const changes = await store.compareInventory(tx, hosts);
    const now = new Date(core.clock.now());
    if (before?.sha256 === digest) return { ...before, changes };
    const after = { sha256: digest, hosts: hosts.length, updatedAt: now };
    if (isDryRun) return { ...after, changes };
    await store.replaceInventory(tx, hosts, after);
    await recordOperatorAction(tx, core, by, {
      action: "inventory.put",
      target: { type: "inventory", id: digest },
      details: {
        hosts: hosts.length,
        added: changes.added.hosts,
        changed: changes.changed.hosts,
        removed: changes.removed.hosts,
      },
    });
    return { ...after, changes };
  });
};

const errorsMax = 32;

const refuseTwice = (hosts: readonly InventoryHost[]) => {
  const first = new Map<string, number>();
  const errors = hosts.flatMap(({ name }, index) => {
    const before = first.get(name);
    if (before === undefined) first.set(name, index);
    return before === undefined
      ? []
      : [{ path: `hosts.${index}.name`, message: `is the name of hosts.${before} too` }];
  });
  if (errors.length > 0)
    throw new Problem("inventory_invalid", { errors: errors.slice(0, errorsMax) });
};

/** Strong comparison (RFC 9110, 13.1.1). */
const matches = (ifMatch: string, current: InventoryRow | undefined) =>
  ifMatch === "" ||
  (current !== undefined &&
    ifMatch.split(",").some((tag) => ["*", inventoryEtag(current)].includes(tag.trim())));

/** The inventory compared with the fleet. */
interface ComparedInventory {
  inventory: InventoryRow | undefined;
  counts: Record<InventoryStatus, number> | null;
  page: Paged<InventoryItem>;
}

/** Returns the number of hosts with each status, and a page of those with these statuses and this text in their names. */
export const compareWithFleet = async (
  core: ReadCore,
  wanted: store.WantedHosts,
  page: PageRequest,
): Promise<ComparedInventory> => {
  const inventory = await store.findInventory(core.db);
  if (inventory === undefined) return { inventory, counts: null, page: { rows: [], next: null } };
  const rules = await readFleetRules(core);
  const [counts, rows] = await Promise.all([
    store.countInventory(core.db, rules),
    store.listInventory(core.db, wanted, rules, page),
  ]);
  return { inventory, counts, page: rows };
};

/** Returns the number of hosts with each status; null without an inventory. */
export const countAgainstFleet = async (core: ReadCore): Promise<ComparedInventory["counts"]> =>
  (await store.findInventory(core.db)) === undefined
    ? null
    : store.countInventory(core.db, await readFleetRules(core));
