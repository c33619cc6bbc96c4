import { zstdCodec } from "#functions/node/ingest/zstd-codec.ts";
import { loadHosts } from "#functions/store/fleet/columns/resident-hosts.ts";
import {
  changesPerCheckpoint,
  createCheckpoints,
} from "#functions/store/fleet/past/checkpoints.ts";
import { rewindHosts } from "#functions/store/fleet/past/rewind-hosts.ts";
import { dayMs } from "#kit/clock.ts";
import type { EmbeddedDatabase } from "#scripts/postgres/embedded-database.ts";
import type { SeededMore } from "./large-fleet.ts";

/** A past of `days` for a seeded fleet; undefined for none. */
export const pastOf = (days: number): SeededMore | undefined =>
  days === 0
    ? undefined
    : { name: `past-${days}`, add: (seeded, now) => seedPast(seeded, { days, now }) };

/** Columns of `fleet_history` that a seeded event leaves as they are now. */
const kept =
  "f.certificate_id, f.successor_id, revoked_from, config_assigned_at, running_config_since, condition_since, version_since, recovered_at, label_set_id, renewal_failed, config_invalid, forwarder_connected, drift, platform, desired_config, last_known_good_config";

/** Gives a seeded fleet a history of `days`, and the checkpoints that core would have stored. */
const seedPast = async (
  database: EmbeddedDatabase,
  { days, now }: { days: number; now: number },
): Promise<void> => {
  const { sql } = database;
  const at = `'${new Date(now).toISOString()}'::timestamptz`;
  const ago = (text: string) =>
    `date_trunc('milliseconds', ${at} - make_interval(secs => 86400.0 * (${text})))`;
  // Times before the seeded fleet, without the triggers that would date the changes by now.
  await sql.begin(async (tx) => {
    await tx.unsafe("set local session_replication_role = replica");
    for (const table of ["collector_identity", "fleet_host", "fleet_status"])
      await tx.unsafe(
        `update ${table} set enrolled_at = enrolled_at - make_interval(days => ${days + 1})`,
      );
  });
  await sql.unsafe(`
    insert into fleet_threshold select ${ago(`${days} + 1`)}, jsonb_build_object('heartbeatIntervalSeconds', 60, 'staleAfterSeconds', 180,
      'forwardingSeconds', 300, 'enrollingSeconds', 900, 'returnSeconds', 96, 'certExpiringFraction', 0.25, 'versionMin', null), 300`);
  await sql.unsafe(`
    insert into fleet_sample select slot, slot, array[1, 2, 3, 4, 5, 6, 7, 8, 99000], 36
    from generate_series(date_trunc('hour', ${ago(String(days))}), ${at}, interval '5 minutes') slot`);
  await sql.unsafe(
    "create temporary table host as select identity_id, (hashtext(identity_id::text) & 65535) / 65536.0 as r from fleet_host",
  );
  await sql.unsafe(`
    insert into fleet_history (identity_id, until_at, ${kept.replaceAll("f.", "")}, certificate_not_after, expired_from, expiring_from,
      queue_at_risk, version, running_config)
    select identity_id, until_at, ${kept}, until_at + interval '10 days', until_at + interval '10 days',
      case when kind = 'used' then 'infinity' else until_at + interval '5 days' end, kind = 'risk',
      case kind when 'upgrade' then '1.' || (9 - nth) || '.0' else version end,
      case kind when 'running' then sha256(nth::text::bytea) else running_config end
    from host join fleet_host f using (identity_id), lateral (
      select 'issued' as kind, nth, ${ago("(nth + r) * 10.5")} as until_at from generate_series(0, ${days} / 10.5 - 1) nth
      union all select 'used', nth, ${ago("(nth + r) * 10.5 - 0.0004")} from generate_series(0, ${days} / 10.5 - 1) nth
      union all select 'assigned', nth, ${ago("nth * 7 + 1 + r * 0.08")} from generate_series(0, ${days} / 7 - 1) nth
      union all select 'running', nth, ${ago("nth * 7 + 1 + r * 0.08 - 0.0005")} from generate_series(0, ${days} / 7 - 1) nth
      union all select 'upgrade', nth, ${ago("nth * 30 + 3 + r")} from generate_series(0, ${days} / 30 - 1) nth
      union all select 'risk', nth, ${ago("(nth + r * 7 % 1) * 30")} from generate_series(0, ${days} / 30 - 1) nth
      union all select 'calm', nth, ${ago("(nth + r * 7 % 1) * 30 + 0.02")} from generate_series(0, ${days} / 30 - 1) nth
    ) event on conflict do nothing`);
  await sql.unsafe(`
    insert into fleet_silence (identity_id, is_of_envelopes, from_at, until_at, queue_bytes)
    select identity_id, is_of_envelopes, ${ago("(nth + r * (3 + is_of_envelopes::int) % 1) * 15 + 0.01 + r")},
      ${ago("(nth + r * (3 + is_of_envelopes::int) % 1) * 15")}, case when is_of_envelopes then -1 else (r * 1e6)::int end
    from host, generate_series(0, greatest(0, ${days} / 15 - 1)) nth, (values (true), (false)) kinds (is_of_envelopes)`);
  await sql.unsafe(
    "vacuum analyze fleet_history, fleet_silence, fleet_status, fleet_host, collector_identity, fleet_sample",
  );
  await addCheckpoints(database, { days, now });
};

/** Adds a checkpoint after each so many changes: those of each day after its first one, as if they had been added in time. */
const addCheckpoints = async (
  { db, sql }: EmbeddedDatabase,
  { days, now }: { days: number; now: number },
): Promise<void> => {
  const rows = await sql.unsafe<{ at: number }[]>(`
    select distinct floor(extract(epoch from until_at))::float8 * 1000 as at from (
      select until_at, row_number() over (order by until_at) as nth
      from (select until_at from fleet_history union all select until_at from fleet_silence) changes
    ) numbered where nth % ${changesPerCheckpoint} = 0 order by 1 desc`);
  const times = rows.map(({ at }) => at).filter((at) => at > now - days * dayMs);
  const checkpoints = createCheckpoints({ db, codec: zstdCodec });
  let day = { at: null as Date | null, table: await loadHosts(db) };
  for (let end = now; end > now - days * dayMs; end -= dayMs) {
    const ofDay = times.filter((at) => at <= end && at > end - dayMs);
    const first = ofDay.at(-1);
    if (first === undefined) continue;
    const start = new Date(first);
    const from = day;
    day = { at: start, table: await rewindHosts(db, day.table, { from: start, until: day.at }) };
    await checkpoints.add(start, day.table);
    let later = from;
    for (const time of ofDay.slice(0, -1)) {
      const at = new Date(time);
      later = { at, table: await rewindHosts(db, later.table, { from: at, until: later.at }) };
      await checkpoints.add(at, later.table);
    }
  }
};
