import { type SQL, sql } from "drizzle-orm";
import { dayMs, hourMs } from "#kit/clock.ts";
import type { Executor } from "../database/database.ts";
import { orNull, type RowOf, readOne, readRows, timestamptz } from "../database/statements.ts";

/** Whole hours, or whole days if their hours are no longer kept, in milliseconds since the epoch. */
export interface VolumeRange {
  fromMs: number;
  toMs: number;
}

/** Envelopes and the bytes of their payloads. */
export interface StoredVolume {
  envelopes: number;
  payloadBytes: number;
}

/** The property by which a volume is split. A label has a key. */
export type VolumeSplit = { by: "host" | "kind" | "source" } | { by: "label"; key: string };

/**
 * Selects the part of a day within a range: `from` and `to` are the first and last of its 24 hours, counted from 1. A range from Monday
 * 22:00 to Wednesday 03:00 has the hours 23 to 24 of Monday, all of Tuesday, whose sum is stored, and the hours 1 to 3 of Wednesday.
 */
const slice = ({ fromMs, toMs }: VolumeRange) => {
  const first = Math.floor(fromMs / dayMs);
  const last = Math.floor((toMs - 1) / dayMs);
  const from = sql`(case day when ${first}::int then ${(fromMs - first * dayMs) / hourMs + 1}::int else 1 end)`;
  const to = sql`(case day when ${last}::int then ${(toMs - last * dayMs) / hourMs}::int else 24 end)`;
  const isWhole = sql`(day > ${first}::int or ${fromMs % dayMs}::int = 0) and (day < ${last}::int or ${toMs % dayMs}::int = 0)`;
  const within = sql`day between ${first}::int and ${last}::int`;
  const sumOf = (sum: SQL, hours: SQL) =>
    sql`case when ${isWhole} then ${sum} else (select coalesce(sum(n), 0) from unnest(${hours}[${from}:${to}]) n) end`;
  return {
    within,
    envelopes: sumOf(sql`envelopes`, sql`hour_envelopes`),
    bytes: sumOf(sql`payload_bytes`, sql`hour_bytes`),
  };
};

const recent = ({ fromMs, toMs }: VolumeRange): SQL =>
  sql`hour >= ${timestamptz(fromMs)} and hour < ${timestamptz(toMs)}`;

/** Selects what core stored in a range, by host and kind. */
const storedRows = (range: VolumeRange): SQL => {
  const { within, envelopes, bytes } = slice(range);
  return sql`(select host_id, kind, envelopes, payload_bytes from ingest_hour where ${recent(range)}
    union all select host_id, kind, ${envelopes}, ${bytes} from volume_day where ${within}) stored`;
};

/** The same for all hosts together, which takes few rows for days. */
const totalRows = (range: VolumeRange): SQL => {
  const { within, envelopes, bytes } = slice(range);
  return sql`(select kind, sum(envelopes) as envelopes, sum(payload_bytes) as payload_bytes from ingest_hour where ${recent(range)} group by kind
    union all select kind, ${envelopes}, ${bytes} from volume_total where ${within}) stored`;
};

const rowsOf = (split: VolumeSplit, range: VolumeRange): { name: SQL; from: SQL } => {
  switch (split.by) {
    case "kind":
      return { name: sql`kind`, from: totalRows(range) };
    case "host":
      return { name: sql`host_id`, from: storedRows(range) };
    case "source":
      return {
        name: sql`kind || ' ' || source`,
        from: sql`(select * from volume_source where ${slice(range).within}) stored`,
      };
    case "label":
      return {
        name: sql`l.labels ->> ${split.key}`,
        from: sql`(select host_id, sum(envelopes) as envelopes, sum(payload_bytes) as payload_bytes from ${storedRows(range)} group by host_id) sent
          left join fleet_status f on f.identity = host_id collate "C" left join label_set l on l.id = f.label_set_id`,
      };
  }
};

/** Finds the parts with the most bytes, and the total. A part with a null name has the hosts without the label. */
export const findLargest = async (
  db: Executor,
  split: VolumeSplit,
  range: VolumeRange,
  limit: number,
): Promise<{
  parts: (StoredVolume & { name: string | null })[];
  total: StoredVolume;
  count: number;
}> => {
  const { name, from } = rowsOf(split, range);
  const rows = await readRows(
    db,
    {
      name: orNull(String),
      envelopes: Number,
      payloadBytes: Number,
      allEnvelopes: Number,
      allBytes: Number,
      count: Number,
    },
    sql`
    select *, sum(envelopes) over () as all_envelopes, sum(payload_bytes) over () as all_bytes, count(*) over () as count from (
      select ${name} as name, sum(envelopes) as envelopes, sum(payload_bytes) as payload_bytes from ${from} group by 1 having sum(envelopes) > 0
    ) parts order by payload_bytes desc, name collate "C" limit ${limit}`,
  );
  const [first] = rows;
  return {
    parts: rows.map(({ name, envelopes, payloadBytes }) => ({ name, envelopes, payloadBytes })),
    total: { envelopes: first?.allEnvelopes ?? 0, payloadBytes: first?.allBytes ?? 0 },
    count: first?.count ?? 0,
  };
};

/** Finds the volume of all hosts over time, by hours or days; those without a row sent nothing. */
export const findSeries = async (
  db: Executor,
  range: VolumeRange,
  stepMs: number,
): Promise<Map<number, StoredVolume>> => {
  const { within } = slice(range);
  const days = sql`select day * ${dayMs}::bigint + (place - 1) * ${hourMs}::bigint as at, e as envelopes, b as payload_bytes
    from volume_total cross join lateral unnest(hour_envelopes, hour_bytes) with ordinality as hours (e, b, place) where ${within}`;
  const whole = sql`select day * ${dayMs}::bigint as at, envelopes, payload_bytes from volume_total where ${within}`;
  const rows = await readRows(
    db,
    { at: Number, envelopes: Number, payloadBytes: Number },
    sql`
    select at - at % ${stepMs}::bigint as at, sum(envelopes) as envelopes, sum(payload_bytes) as payload_bytes from (
      select (extract(epoch from hour) * 1000)::bigint as at, envelopes, payload_bytes from ingest_hour where ${recent(range)}
      union all ${stepMs === hourMs ? days : whole}
    ) stored where at >= ${range.fromMs}::bigint and at < ${range.toMs}::bigint group by 1`,
  );
  return new Map(rows.map(({ at, ...volume }) => [at, volume]));
};

/** The names of a host, and its usual day; null if unknown. */
export type HostOfVolume = Omit<RowOf<typeof hostOfVolume>, "host">;
const hostOfVolume = {
  host: String,
  identityId: orNull(String),
  deviceId: orNull(String),
  dayBytes: Number,
  usualBytes: orNull(Number),
};

/** Finds them by the hosts' identities. */
export const findHostsOfVolume = async (
  db: Executor,
  hosts: readonly string[],
): Promise<Map<string, HostOfVolume>> => {
  if (hosts.length === 0) return new Map();
  const rows = await readRows(
    db,
    hostOfVolume,
    sql`
    select host_id as host, h.identity_id, h.device_id, coalesce(v.day_bytes, 0) as day_bytes, v.usual_bytes
    from jsonb_array_elements_text(${JSON.stringify(hosts)}::jsonb) as wanted (host_id)
    left join fleet_host h on h.identity = host_id collate "C" left join host_volume v using (host_id)`,
  );
  return new Map(rows.map(({ host, ...names }) => [host, names]));
};

/** Finds the disk that whole days of telemetry take, and the payload bytes that core stored on them: the newest days with known hours. */
export const findDiskOfDays = (
  db: Executor,
  { today, days }: { today: number; days: number },
): Promise<{ diskBytes: number; payloadBytes: number }> =>
  readOne(
    db,
    { diskBytes: Number, payloadBytes: Number },
    sql`
    select coalesce(sum(disk), 0) as disk_bytes, coalesce(sum(payload), 0) as payload_bytes from (
      select (select sum(pg_total_relation_size(inhrelid)) from pg_inherits join pg_class on oid = inhrelid
          where relname in ('ingest_block_' || name, 'ingest_envelope_' || name)) as disk,
        (select sum(payload_bytes) from ingest_hour where hour >= at and hour < at + interval '1 day') as payload
          from generate_series(${today - days}::int, ${today - 1}::int) day,
        lateral (select to_timestamp(day * 86400) as at, to_char(to_timestamp(day * 86400) at time zone 'utc', 'YYYYMMDD') as name) named
    ) stored where disk > 0 and payload > 0`,
  );
