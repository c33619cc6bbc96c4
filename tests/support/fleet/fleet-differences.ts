import { sql } from "drizzle-orm";
import type { Executor } from "#functions/store/database/database.ts";

/** Returns how `fleet_host` and `fleet_status` differ from the view that they follow, apart from later statuses and envelopes. */
export const fleetDifferences = async (db: Executor) => {
  const columns = async (table: string, but: readonly string[]) => {
    const rows = await db.execute<{ name: string }>(sql`
      select column_name as name from information_schema.columns where table_name = ${table}
        and column_name in (select column_name from information_schema.columns where table_name = 'fleet_facts')`);
    return sql.raw(rows.flatMap(({ name }) => (but.includes(name) ? [] : [name])).join(", "));
  };
  const host = await columns("fleet_host", ["last_envelope_at"]);
  const status = await columns("fleet_status", ["last_heartbeat_at", "queue_bytes"]);
  const rows = await Promise.all([
    db.execute(sql`(select ${host} from fleet_host except select ${host} from fleet_facts)
      union all (select ${host} from fleet_facts except select ${host} from fleet_host)`),
    db.execute(sql`(select ${status} from fleet_status except select ${status} from fleet_facts)
      union all (select ${status} from fleet_facts except select ${status} from fleet_status)`),
    db.execute(sql`select s.identity_id, s.last_heartbeat_at, s.queue_bytes, f.last_heartbeat_at, f.queue_bytes
      from fleet_status s join fleet_facts f using (identity_id) where s.last_heartbeat_at < f.last_heartbeat_at
        or s.last_heartbeat_at = f.last_heartbeat_at and s.queue_bytes <> f.queue_bytes`),
  ]);
  return rows.flatMap((found) => [...found]);
};
