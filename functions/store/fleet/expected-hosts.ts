import { type SQL, sql } from "drizzle-orm";
import type { EnrolledStatus } from "#proto/fleet-health/vocabulary.ts";
import { type FleetRules, forwardingIs, isActive, timestampAt } from "./rows.ts";

/** Entries of the inventory with the host of each: an entry names a device id or a whole identity. */
const namedBy = (column: SQL): SQL =>
  sql`select n.name, n.owner, n.labels, n.removed_at, h.identity_id, h.identity
    from inventory_host n join fleet_host h on ${column} = n.name`;

/** Entries of the inventory, those that it had before included, with the hosts of the fleet that have their names. */
export const namedHosts = sql`(${namedBy(sql`h.device_id`)} union all ${namedBy(sql`h.identity`)}) named`;

const expectedHosts = sql`select identity_id from ${namedHosts} where removed_at is null`;
const removedHosts = sql`select identity_id from ${namedHosts} where removed_at is not null except ${expectedHosts}`;
/** Without an inventory there are none. */
const unknownHosts = sql`select identity_id from fleet_host where exists (select from inventory)
  except select identity_id from ${namedHosts}`;

/** The host sends heartbeats or telemetry. */
export const stillSends = (rules: FleetRules): SQL =>
  sql`(${isActive(rules)} or ${forwardingIs("forwarding", rules)})`;

/** Returns the predicate that a host of the fleet has this status (`inventoryStatuses`). Never null. */
export const inventoryPredicate = (status: EnrolledStatus, rules: FleetRules): SQL =>
  ({
    expected: () => sql`identity_id in (${expectedHosts})`,
    unexpected: () =>
      sql`(identity_id in (${unknownHosts}) and revoked_from > ${timestampAt(rules.now)})`,
    gone: () => sql`(identity_id in (${removedHosts}) and ${stillSends(rules)})`,
  })[status]();

/** Parts of the statement of rows (report.ts): the status of a host, and who owns it. */
export const inventoryOfRow = ({ now, past }: FleetRules): { columns: SQL; join: SQL } =>
  past
    ? { columns: sql`null as inventory_status, null as inventory_owner`, join: sql`` }
    : {
        columns: sql`case when not exists (select from inventory) then null when n.name is null
            then case when f.revoked_from > ${timestampAt(now)} then 'unexpected' end
          when n.removed_at is null then 'expected' when f.still_sends then 'gone' end as inventory_status,
          n.owner as inventory_owner`,
        join: sql`left join lateral (
            select name, owner, removed_at from inventory_host where name in (f.device_id, f.identity)
            order by removed_at nulls first limit 1
          ) n on true`,
      };
