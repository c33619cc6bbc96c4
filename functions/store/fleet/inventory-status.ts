/** How the inventory of expected hosts and the fleet agree on a host (`inventoryStatuses`). */
import { type SQL, sql } from "drizzle-orm";
import type { EnrolledStatus } from "#proto/fleet-health/vocabulary.ts";
import { timestamptz } from "../database/statements.ts";
import { and, type Expression, found, or } from "./columns/expression.ts";
import { type FleetRules, forwardingIs, isActive, notRevoked } from "./conditions.ts";

/** Joins entries of the inventory with hosts by name: an entry names a device id or a whole identity. */
const namedBy = (column: SQL): SQL =>
  sql`select n.name, n.owner, n.labels, n.removed_at, h.identity_id, h.identity
    from inventory_host n join fleet_host h on ${column} = n.name`;

/** Entries of the inventory, including removed ones, with the hosts that they name. */
export const namedHosts = sql`(${namedBy(sql`h.device_id`)} union all ${namedBy(sql`h.identity`)}) named`;

const expectedHosts = sql`select identity_id from ${namedHosts} where removed_at is null`;
const removedHosts = sql`select identity_id from ${namedHosts} where removed_at is not null except ${expectedHosts}`;
/** Empty without an inventory. */
const unknownHosts = sql`select identity_id from fleet_host where exists (select from inventory)
  except select identity_id from ${namedHosts}`;

/** Selects hosts that send heartbeats or telemetry. */
export const stillSends = (rules: FleetRules): Expression =>
  or(isActive(rules), forwardingIs("forwarding", rules));

/** Returns the predicate that a host of the fleet has this status (`inventoryStatuses`). */
export const inventoryPredicate = (status: EnrolledStatus, rules: FleetRules): Expression => {
  switch (status) {
    case "expected":
      return found("identity_id", expectedHosts);
    case "unexpected":
      return and(found("identity_id", unknownHosts), notRevoked(rules));
    case "gone":
      return and(found("identity_id", removedHosts), stillSends(rules));
  }
};

/**
 * Returns the same of one host, by its entry `n`, if it has one, and its row `f` with `still_sends`: for the hosts of a page, which the
 * predicate would look for in the whole inventory.
 */
export const inventoryStatusOf = ({ now }: FleetRules): SQL => sql`
  case when not exists (select from inventory) then null
    when n.name is null then case when f.revoked_from > ${timestamptz(now)} then 'unexpected' end
    when n.removed_at is null then 'expected' when f.still_sends then 'gone' end`;
