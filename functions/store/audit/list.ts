import {
  type AnyColumn,
  and,
  desc,
  eq,
  gte,
  inArray,
  lt,
  ne,
  or,
  type SQL,
  sql,
} from "drizzle-orm";
import { auditChain, auditEvent } from "#drizzle/schema/audit.ts";
import { certificate } from "#drizzle/schema/enrollment.ts";
import type { AuditActors, NamedRecordType } from "#proto/audit-event.ts";
import { isUuid } from "#proto/values.ts";
import type { Executor } from "../database/database.ts";
import {
  anyOf,
  asIs,
  orNull,
  type Paged,
  type PageRequest,
  paged,
  type RowOf,
  readRows,
  readScalars,
  substring,
  texts,
  uuids,
} from "../database/statements.ts";

/** The subjects of events: targets, and actors such as a host whose enrollment was rejected. */
export interface AuditSubject {
  targetIds: readonly [string, ...string[]];
  actorIds: readonly string[];
}

/** Selects events that match every given property. */
export interface AuditFilter {
  /** Any of these actions. */
  actions?: readonly string[] | undefined;
  /** None of these actions. */
  notActions?: readonly string[] | undefined;
  /** The actor's id, or the name that the log shows. */
  actor?: string | undefined;
  /** Not by this actor, by the id or the name. */
  notActor?: string | undefined;
  /** By operators and workloads, or by hosts and core. */
  by?: AuditActors | undefined;
  /** Events on any of these targets, or by any of these actors. */
  about?: AuditSubject | undefined;
  outcome?: "success" | "failure" | undefined;
  /** Exactly this reason. */
  reason?: string | undefined;
  since?: Date | undefined;
  until?: Date | undefined;
  /** A substring of actor, target, reason, address, request or details, in any case. */
  text?: string | undefined;
}

/** An index range that returns events newest first: those whose column has this value. */
interface Stream {
  column: AnyColumn;
  values: readonly string[];
  /** The index continues with the action: one range for each of these, or for each that the log has. */
  actions?: readonly string[] | "any";
}

/** The most events that a text search reads for one page. */
export const searchedEventsMax = 5000;

/** An event's id begins with its millisecond (UUIDv7). Clocks of cores differ by less than this. */
const idSlackMs = 60_000;

/**
 * Returns one page of the log, newest first. An event that is not chained yet has a null link. A text search reads at most
 * `searchedEventsMax` events, so that its page may be short, or empty, and still have a next one.
 */
export const listAuditEvents = async (
  db: Executor,
  filter: AuditFilter,
  page: PageRequest,
): Promise<Paged<ListedAuditEvent>> => {
  const { rows: ids, next } = await findPageIds(db, filter, page);
  const rows = await db
    .select({ event: auditEvent, link: auditChain })
    .from(auditEvent)
    .leftJoin(auditChain, eq(auditChain.eventId, auditEvent.id))
    .where(anyOf(auditEvent.id, ids))
    .orderBy(desc(auditEvent.id));
  return { rows: rows.map(({ event, link }) => ({ ...event, link })), next };
};

/** An event of a list, with its link. */
export type ListedAuditEvent = typeof auditEvent.$inferSelect & {
  link: typeof auditChain.$inferSelect | null;
};

const findPageIds = async (db: Executor, asked: AuditFilter, { after, limit }: PageRequest) => {
  const filter = await withoutNotActions(db, asked);
  const { streams, others } = streamsOf(filter);
  const range = rangeOf(filter, after);
  const condition = and(...conditionsOf(others)) ?? sql`true`;
  const newest = (count: number) => newestIds(streams, range, condition, count);
  const pageOfIds = (ids: string[]) => paged(ids, { limit }, (id) => id);
  if (filter.text === undefined) return pageOfIds(await readScalars(db, String, newest(limit + 1)));
  const rows = await db.execute<{ id: string; is_match: boolean }>(sql`
    with read as materialized (${newest(searchedEventsMax)}),
      matching as materialized (
        select ${auditEvent.id} from read join ${auditEvent} on ${auditEvent.id} = read.id
        where ${contains(filter.text)} order by ${auditEvent.id} desc limit ${limit + 1}
      )
    select id, true as is_match from matching
    union all (select id, false from read order by id desc offset ${searchedEventsMax - 1})`);
  const matching = pageOfIds(rows.filter((row) => row.is_match).map(({ id }) => id));
  const lastRead = rows.find((row) => !row.is_match)?.id ?? null;
  return { ...matching, next: matching.next ?? lastRead };
};

/** Replaces excluded actions in the filter by the remaining ones: then each is an index range, as for any other filter. */
const withoutNotActions = async (
  db: Executor,
  { notActions, ...filter }: AuditFilter,
): Promise<AuditFilter> => {
  if (notActions === undefined) return filter;
  const actions = filter.actions ?? (await readScalars(db, String, actionsIn("any")));
  return { ...filter, actions: actions.filter((action) => !notActions.includes(action)) };
};

/**
 * Returns the streams of the most selective property of a filter, and the other properties. Without the streams' own, for which the planner
 * would prefer to collect all matches, and sort.
 */
const streamsOf = (filter: AuditFilter): { streams?: readonly Stream[]; others: AuditFilter } => {
  const { about, actor, actions, outcome } = filter;
  if (about !== undefined) {
    const { about: _, ...others } = filter;
    const targets = { column: auditEvent.targetId, values: about.targetIds };
    return { streams: [targets, { column: auditEvent.actorId, values: about.actorIds }], others };
  }
  if (actor !== undefined) {
    const { actor: _, actions: __, ...others } = filter;
    const columns = [auditEvent.actorId, auditEvent.actorDisplay];
    return {
      streams: columns.map((column) => ({ column, values: [actor], actions: actions ?? "any" })),
      others,
    };
  }
  // The planner finds the partial index of failures by itself.
  if (actions === undefined || actions.length === 0 || outcome === "failure")
    return { others: filter };
  const { actions: _, ...others } = filter;
  return { streams: [{ column: auditEvent.action, values: actions }], others };
};

/** Ids from `low`, below `high`. */
interface IdRange {
  low: string;
  high: string;
}

/**
 * Returns the query of the newest `limit` ids of all streams, reading at most `limit` of each. A stream is a range of its index, which
 * alone has that order: for an equality, the planner would at times read all events from the newest.
 */
const newestIds = (
  streams: readonly Stream[] | undefined,
  { low, high }: IdRange,
  condition: SQL,
  limit: number,
): SQL => {
  const { id } = auditEvent;
  if (streams === undefined)
    return sql`select ${id} from ${auditEvent} where ${id} >= ${low}::uuid and ${id} < ${high}::uuid and ${condition}
      order by ${id} desc limit ${limit}`;
  const newestOf = ({ column, values, actions }: Stream): SQL => {
    const columns = actions === undefined ? sql`${column}` : sql`${column}, ${auditEvent.action}`;
    const keys = actions === undefined ? sql`value` : sql`value, kind.action`;
    const kinds = actions === undefined ? sql`` : sql`cross join (${actionsIn(actions)}) kind`;
    const order =
      actions === undefined ? sql`${column} desc` : sql`${column} desc, ${auditEvent.action} desc`;
    return sql`select newest.id from unnest(${texts(values)}) value ${kinds} cross join lateral (
      select ${id} from ${auditEvent}
      where (${columns}, ${id}) >= (${keys}, ${low}::uuid) and (${columns}, ${id}) < (${keys}, ${high}::uuid) and ${condition}
      order by ${order}, ${id} desc limit ${limit}
    ) newest`;
  };
  const queries = streams.filter(({ values }) => values.length > 0).map(newestOf);
  return sql`select id from (${sql.join(queries, sql` union `)}) streams order by id desc limit ${limit}`;
};

/** Returns the query of these actions, or of each that the log has, which takes one step through the index for each. */
const actionsIn = (actions: readonly string[] | "any"): SQL =>
  actions === "any"
    ? sql`with recursive step as (
        (select action from audit_event order by action limit 1)
        union all
        select (select action from audit_event where action > step.action order by action limit 1) from step
        where step.action is not null
      ) select action from step where action is not null`
    : sql`select unnest(${texts(actions)}) as action`;

/** Counts the events of actions since a time, by the hour since 1970. */
export const countEventsByHour = async (
  db: Executor,
  { actions, since, by }: { actions: readonly string[]; since: Date; by: AuditActors },
): Promise<ReadonlyMap<number, number>> => {
  const { low } = rangeOf({ since }, null);
  const hour = sql`floor(extract(epoch from ${auditEvent.occurredAt}) / 3600)`;
  const where = and(gte(auditEvent.id, low), ...conditionsOf({ actions, since, by }));
  const rows = await readRows(
    db,
    { hour: Number, events: Number },
    sql`select ${hour} as hour, count(*) as events from ${auditEvent} where ${where} group by 1`,
  );
  return new Map(rows.map(({ hour, events }) => [hour, events]));
};

/** Returns the ids that events of a filter's time can have, below `after`. */
const rangeOf = ({ since, until }: AuditFilter, after: string | null): IdRange => {
  const low = since
    ? firstIdAt(since.getTime() - idSlackMs)
    : "00000000-0000-0000-0000-000000000000";
  const end = until
    ? firstIdAt(until.getTime() + idSlackMs)
    : "ffffffff-ffff-ffff-ffff-ffffffffffff";
  return { low, high: after !== null && after < end ? after : end };
};

/** Returns the conditions of a filter without `about`, which always decides the streams. */
const conditionsOf = ({
  actions,
  actor,
  notActor,
  by,
  outcome,
  reason,
  since,
  until,
}: AuditFilter): (SQL | undefined)[] => [
  reason === undefined ? undefined : eq(auditEvent.reason, reason),
  actions && inArray(auditEvent.action, [...actions]),
  actor === undefined
    ? undefined
    : or(eq(auditEvent.actorId, actor), eq(auditEvent.actorDisplay, actor)),
  notActor === undefined
    ? undefined
    : and(ne(auditEvent.actorId, notActor), ne(auditEvent.actorDisplay, notActor)),
  by && sql`(${auditEvent.actorType} in ('operator', 'workload')) = ${by === "people"}`,
  // Written as a literal, so that the planner recognises the partial index.
  outcome &&
    (outcome === "failure"
      ? sql`${auditEvent.outcome} = 'failure'`
      : eq(auditEvent.outcome, outcome)),
  since && gte(auditEvent.occurredAt, since),
  until && lt(auditEvent.occurredAt, until),
];

/** Returns the lowest UUIDv7 of a millisecond. */
const firstIdAt = (milliseconds: number) => {
  const hex = Math.max(0, milliseconds).toString(16).padStart(12, "0");
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-7000-8000-000000000000`;
};

const contains = (
  text: string,
): SQL => sql`concat_ws(' ', ${auditEvent.actorDisplay}, ${auditEvent.targetId},
  ${auditEvent.reasonCode}, ${auditEvent.reason}, ${auditEvent.remoteAddr}, ${auditEvent.requestId},
  ${auditEvent.details}) ilike ${substring(text)}`;

/** Finds the newest events of an identity and its certificates, newest first. */
export const findCollectorEvents = async (
  db: Executor,
  identityId: string,
  { limit, until }: { limit: number; until?: Date | undefined },
) => {
  const certificates = await db
    .select({ id: certificate.id })
    .from(certificate)
    .where(eq(certificate.identityId, identityId));
  const about: AuditSubject = {
    targetIds: [identityId, ...certificates.map(({ id }) => id)],
    actorIds: [],
  };
  return (await listAuditEvents(db, { about, until }, { after: null, limit })).rows;
};

/** An event of a collector. */
export type CollectorEvent = Awaited<ReturnType<typeof findCollectorEvents>>[number];

/** The name of a record, and what distinguishes it from others of the same name. */
export type RecordName = RowOf<typeof recordName>;
const recordName = {
  id: String,
  type: asIs<NamedRecordType>,
  name: String,
  /** A config's name, the identity of a certificate, the policy of a token, the filter of a rollout or a watch. */
  detail: orNull(String),
  /** The host to which the record belongs. */
  identityId: orNull(String),
};

/** Finds the names of records by their ids, whatever their type; an unknown id has none. */
export const findRecordNames = async (
  db: Executor,
  ids: readonly string[],
): Promise<RecordName[]> => {
  if (ids.length === 0) return [];
  const among = sql`any(${uuids(ids)})`;
  return readRows(
    db,
    recordName,
    sql`
    select id, 'collector_identity' as type, identity as name, null as detail, id as identity_id
      from collector_identity where id = ${among}
    union all select c.id, 'certificate', c.serial_number, i.identity, i.id
      from certificate c join collector_identity i on i.id = c.identity_id where c.id = ${among}
    union all select id, 'collector_config', config_hash, name, null from collector_config where id = ${among}
    union all select id, 'enrollment_policy', name, null, null from enrollment_policy where id = ${among}
    union all select t.id, 'bootstrap_token', t.token_prefix, p.name, null
      from bootstrap_token t join enrollment_policy p on p.id = t.policy_id where t.id = ${among}
    union all select r.id, 'rollout', coalesce(c.name, left(c.config_hash, 12)), nullif(r.filter, ''), null
      from rollout r join collector_config c on c.id = r.config_id where r.id = ${among}
    union all select id, 'watch', name, nullif(filter, ''), null from watch where id = ${among}
    union all select user_id, 'person', primary_email, nullif(display_name, ''), null from person where user_id = ${among}`,
  );
};

/** Hosts of the same device id that one name selects at most. */
const hostsMax = 100;

/** The first condition follows from the second, and can use an index if the server has pg_trgm. */
const isNamed = (text: string): SQL =>
  sql`f.search like lower(${substring(text)}) and (f.identity = ${text} or f.device_id = ${text})`;

/**
 * Finds the subjects of events that an operator names by: a record's id; a host's identity or device id; a certificate's serial number or
 * fingerprint; a config's name or hash, or at least six characters of it; the name of a policy or a watch, the prefix of a token, or the
 * email of a person. A host includes its certificates, and its rejected enrollments. Text that names nothing is a target's id itself.
 */
export const findAuditSubject = async (db: Executor, text: string): Promise<AuditSubject> => {
  const hex = text.toLowerCase().replaceAll(":", "");
  const fingerprint = /^[0-9a-f]{64}$/.test(hex) ? `\\x${hex}` : null;
  const serial = /^[0-9a-f]{8,64}$/.test(hex) ? hex : null;
  const hash = /^[0-9a-f]{6,64}$/.test(text) ? `${text}%` : null;
  const rows = await db.execute<{ id: string; identity: string | null }>(sql`
    with host as (
      select f.identity_id, f.identity from fleet f where ${isUuid(text) ? sql`f.identity_id = ${text}::uuid` : isNamed(text)} limit ${hostsMax}
    )
    select identity_id as id, identity from host
    union all select c.id, null from host join certificate c using (identity_id)
    union all select id, null from certificate where fingerprint_sha256 = ${fingerprint}::bytea
    union all select id, null from certificate where serial_number = ${serial}
    union all select id, null from collector_config where name = ${text} or config_hash like ${hash}
    union all select id, null from enrollment_policy where name = ${text}
    union all select id, null from watch where name = ${text}
    union all select id, null from bootstrap_token where token_prefix = ${text}
    union all select user_id, null from person where primary_email = ${text}`);
  const actorIds = rows.flatMap(({ identity }) => (identity === null ? [] : [identity]));
  return { targetIds: [text, ...new Set(rows.map(({ id }) => id))], actorIds };
};
