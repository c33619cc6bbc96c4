/** Finds upgrades and changes of labels outside of rollouts in the history of hosts' facts. */
import { and, eq, gt, isNull, lt, type SQL, sql } from "drizzle-orm";
import { fleetChange, fleetChangeHour } from "#drizzle/schema/fleet-history.ts";
import { hourMs } from "#kit/clock.ts";
import type { Database, Executor } from "../database/database.ts";
import {
  asDate,
  asIs,
  hasRows,
  listPage,
  orNull,
  type Paged,
  type PageRequest,
  readRows,
  readScalar,
  timestamptz,
} from "../database/statements.ts";

/** A change, and its comparison once it has soaked. */
export type ChangeRow = typeof fleetChange.$inferSelect;

/** The most changes of an hour that are compared, those with the most hosts first; the others are counted. */
const foundMax = 200;

/**
 * Selects the changes of hosts between two times, with their facts before: between consecutive rows of history, or from the last row to the
 * host as it is. What a host reports first, within an hour of its enrollment, is no change.
 */
const changesBetween = (from: Date, until: Date): SQL => sql`(
    with changed as materialized (
      select h.identity_id, h.until_at as at, h.platform, h.version, h.label_set_id, n.version as to_version, n.label_set_id as to_set
      from fleet_history h
      join fleet_status s on s.identity_id = h.identity_id and s.enrolled_at < h.until_at - interval '1 hour'
      cross join lateral (
        (select until_at, version, label_set_id from fleet_history
          where identity_id = h.identity_id and until_at > h.until_at order by until_at limit 1)
        union all
        select 'infinity', version, label_set_id from fleet_host where identity_id = h.identity_id
        order by until_at limit 1
      ) n
      where h.until_at >= ${timestamptz(from)} and h.until_at <= ${timestamptz(until)}
        and (h.version <> n.version or h.label_set_id <> n.label_set_id)
    )
    select identity_id, at, platform, version, label_set_id, 'version' as kind, '' as name, version as from_value, to_version as to_value
    from changed where version <> to_version
    union all
    select c.identity_id, c.at, c.platform, c.version, c.label_set_id, 'label', l.* from changed c
    cross join lateral (
      select key collate "C", a.value collate "C", b.value collate "C"
      from jsonb_each_text((select labels from label_set where id = c.label_set_id)) a
      full join jsonb_each_text((select labels from label_set where id = c.to_set)) b using (key)
      where a.value is distinct from b.value
    ) l
    where c.label_set_id <> c.to_set
  )`;

/** Hosts that changed in the same way in an hour. */
export interface FoundChange extends Omit<ChangeRow, "id" | "comparison"> {
  /** The change that they continue: one that ended less than an hour before, and began less than six hours before. */
  openId: string | null;
}

/** Finds the changes of an hour, those of most hosts first, and how many there are. */
export const findChangesOfHour = async (
  db: Executor,
  hour: number,
): Promise<{ found: FoundChange[]; count: number }> => {
  const from = new Date(hour * hourMs);
  const rows = await readRows(
    db,
    {
      kind: asIs<ChangeRow["kind"]>,
      name: String,
      fromValue: orNull(String),
      toValue: orNull(String),
      beganAt: asDate,
      endedAt: asDate,
      hosts: Number,
      openId: orNull(String),
      count: Number,
    },
    sql`
    select f.*, o.id as open_id, count(*) over () as count from (
      select kind, name, from_value, to_value, min(at) as began_at, max(at) as ended_at, count(distinct identity_id) as hosts
      from ${changesBetween(from, new Date(from.getTime() + hourMs - 1))} change group by 1, 2, 3, 4
    ) f left join lateral (
      select id from fleet_change where comparison is null and kind = f.kind and name = f.name
        and from_value is not distinct from f.from_value and to_value is not distinct from f.to_value
        and ended_at >= f.began_at - interval '1 hour' and began_at >= f.ended_at - interval '6 hours'
      order by id desc limit 1
    ) o on true
    order by hosts desc, kind, name, from_value, to_value limit ${foundMax}`,
  );
  const found = rows.map(({ count: _, ...row }) => row);
  return { found, count: rows[0]?.count ?? 0 };
};

/** Returns the last hour that was searched. Deletes those after `hour`, which a clock that was ahead has stored. */
export const findLastHour = async (db: Executor, hour: number): Promise<number | undefined> => {
  await db.delete(fleetChangeHour).where(gt(fleetChangeHour.hour, hour));
  const last = await readScalar(db, orNull(Number), sql`select max(hour) from fleet_change_hour`);
  return last ?? undefined;
};

/** Begins to search an hour. Returns false if a core has searched it; waits for a core that may be about to. */
export const beginHour = (tx: Executor, hour: number): Promise<boolean> =>
  hasRows(
    tx.insert(fleetChangeHour).values({ hour, refused: 0 }).onConflictDoNothing().returning(),
  );

/** Stores the number of an hour's changes beyond the limits. */
export const refuseChanges = async (tx: Executor, hour: number, refused: number): Promise<void> => {
  await tx.update(fleetChangeHour).set({ refused }).where(eq(fleetChangeHour.hour, hour));
};

/** Counts the changes beyond the limits since an hour. */
export const countRefused = (db: Executor, hour: number): Promise<number> =>
  readScalar(
    db,
    Number,
    sql`select coalesce(sum(refused), 0) from fleet_change_hour where hour >= ${hour}::int`,
  );

/** Stores changes. */
export const insertChanges = async (tx: Executor, rows: readonly ChangeRow[]): Promise<void> => {
  if (rows.length > 0) await tx.insert(fleetChange).values([...rows]);
};

/** Selects hosts that changed in the same way as those of a change. */
const alike = ({ kind, name, fromValue, toValue }: ChangeRow): SQL =>
  sql`kind = ${kind} and name = ${name} and from_value is not distinct from ${fromValue}::text and to_value is not distinct from ${toValue}::text`;

/** Extends a change to a time. Counts its hosts again, because a clock that was ahead may have had an hour searched before. */
export const extendChange = async (
  tx: Executor,
  id: string,
  { endedAt: until }: Pick<ChangeRow, "endedAt">,
): Promise<void> => {
  const [open] = await tx.select().from(fleetChange).where(eq(fleetChange.id, id));
  if (open === undefined) return;
  const endedAt = until > open.endedAt ? until : open.endedAt;
  const hosts = sql`(select count(distinct identity_id) from ${changesBetween(open.beganAt, endedAt)} change where ${alike(open)})`;
  await tx.update(fleetChange).set({ endedAt, hosts }).where(eq(fleetChange.id, id));
};

/** Finds the changes that began after a time. */
export const findChangesSince = (db: Executor, since: Date): Promise<ChangeRow[]> =>
  db.select().from(fleetChange).where(gt(fleetChange.beganAt, since));

/** Finds the changes that ended before a time and have no comparison. */
export const findOpenChanges = (db: Executor, before: Date): Promise<ChangeRow[]> =>
  db
    .select()
    .from(fleetChange)
    .where(and(isNull(fleetChange.comparison), lt(fleetChange.endedAt, before)))
    .orderBy(fleetChange.id);

/** Stores the result of `compare` for a change, unless it has a comparison or another core is about to store one. */
export const storeComparison = (
  db: Database,
  id: string,
  compare: (tx: Executor) => Promise<ChangeRow["comparison"]>,
): Promise<void> =>
  db.transaction(async (tx) => {
    const isOpen = and(eq(fleetChange.id, id), isNull(fleetChange.comparison));
    const locked = await tx
      .select()
      .from(fleetChange)
      .where(isOpen)
      .for("update", { skipLocked: true });
    if (locked.length > 0)
      await tx
        .update(fleetChange)
        .set({ comparison: await compare(tx) })
        .where(isOpen);
  });

/** Returns one page of the changes, newest first. */
export const listChanges = async (db: Executor, page: PageRequest): Promise<Paged<ChangeRow>> => {
  return listPage(db, fleetChange, page, []);
};

/**
 * Selects the hosts that made a change and kept it, with their facts before, and those that kept version and label since it began; for
 * `findFollowedHosts`.
 */
export const hostsOfChange = (change: ChangeRow, now: Date): SQL => {
  const { kind, name, toValue, beganAt, endedAt } = change;
  const began = timestamptz(beganAt);
  const isFollowed = sql`s.revoked_from > ${timestamptz(now)} and s.config_assigned_at < ${began}`;
  const changedValue = (row: "s" | "h") =>
    kind === "version"
      ? sql.raw(`${row}.version`)
      : sql`(select labels ->> ${name}::text from label_set where id = ${sql.raw(row)}.label_set_id)`;
  return sql`
    select c.identity_id, c.platform, c.version, c.label_set_id, true as is_changed
    from (
      select distinct on (identity_id) * from ${changesBetween(beganAt, endedAt)} change
      where ${alike(change)} order by identity_id, at
    ) c join fleet_status s on s.identity_id = c.identity_id
    where ${isFollowed} and ${changedValue("s")} is not distinct from ${toValue}::text
    union all
    select s.identity_id, s.platform, s.version, s.label_set_id, false from fleet_status s
    where ${isFollowed} and not exists (
      select from fleet_history h where h.identity_id = s.identity_id and h.until_at >= ${began}
        and (h.version <> s.version or ${changedValue("h")} is distinct from ${changedValue("s")}))`;
};
