import { type SQL, type SQLWrapper, sql } from "drizzle-orm";
import type { Reenrollment } from "#drizzle/schema/enrollment.ts";
import { dayMs } from "#kit/clock.ts";
import { membersOfRow } from "#proto/fleet-health/columns.ts";
import type { FleetFilter } from "#proto/fleet-health/filter.ts";
import {
  type ExportKind,
  type FleetCondition,
  type FleetSort,
  fleetConditions,
  forwardings,
  type troubles,
} from "#proto/fleet-health/vocabulary.ts";
import {
  everyNumber,
  type NumberColumn,
  reportedNumbers,
  sortedFigures,
} from "#proto/management/reported-numbers.ts";
import { type AgentKind, agentPromises } from "#proto/values.ts";
import type { Executor } from "../database/database.ts";
import {
  asIs,
  defineStatement,
  firstRow,
  orNull,
  type RowOf,
  readRow,
  timestamptz,
  uuids,
} from "../database/statements.ts";
import { always, column, never } from "./columns/expression.ts";
import {
  conditionPredicate,
  type FleetRules,
  forwardingIndex,
  hostsOf,
  severityKey,
  stateAtIndex,
  stateIndex,
} from "./conditions.ts";
import { inventoryStatusOf, stillSends } from "./inventory-status.ts";
import {
  exportPredicate,
  fleetPredicate,
  incompleteHoursByHost,
  incompleteHoursOf,
  queuesFullWithin,
} from "./predicate.ts";
import {
  type FleetPosition,
  type HostOrder,
  type JoinedOrder,
  type OrderedRange,
  selectHosts,
  selectStored,
  type ViewedFleet,
} from "./select-hosts.ts";

/**
 * A collector as the driver returns it: every column of `rowColumns`, times as text and 64-bit integers as decimal strings. Has names for those
 * that decide something, and for the facts that explain its conditions.
 */
export type FleetRow = Record<string, unknown> &
  Record<`is_${FleetCondition}`, boolean> &
  Record<"identity_id" | "identity" | "device_id" | "enrolled_at", string> &
  Record<"certificate_not_after" | "certificate_issued_at", string> &
  /** When revocation, expiry and the state `cert_expiring` begin; `-infinity` and `infinity` as in the table. */
  Record<(typeof troubles.times)[number], string> &
  Record<
    | "last_heartbeat_at"
    | "revoked_at"
    | "certificate_revoked_at"
    | "successor_not_after"
    | "renewal_last_error"
    | "config_error"
    | "reported_conditions"
    | "config_invalid_since"
    | "queue_at_risk_since"
    | "renewal_failed_since"
    | "version_since"
    | "gap_records_max"
    | NumberColumn,
    string | null
  > & {
    agent: AgentKind;
    certificate_status: "active" | "replaced" | "revoked";
    dropped_since_previous: boolean | null;
  };

/** Hours that began within this time count as `incomplete_hours`. */
const incompleteSince = ({ now }: FleetRules) => now.getTime() - dayMs;

/** Returns the orders of a page. Events that have not happened come first in ascending order. */
const ordersOf = (rules: FleetRules) =>
  ({
    identity: { key: column("identity"), type: "text" },
    severity: { key: severityKey(rules), type: "timestamptz" },
    last_heartbeat_at: { key: column("last_heartbeat_at"), type: "timestamptz" },
    last_envelope_at: { key: column("last_envelope_at"), type: "timestamptz" },
    certificate_not_after: { key: column("certificate_not_after"), type: "timestamptz" },
    ...(Object.fromEntries(
      sortedFigures.map((figure) => [figure, { key: column(figure), type: "bigint" }]),
    ) as Record<(typeof sortedFigures)[number], HostOrder>),
    day_bytes: {
      key: sql`coalesce(sent.day_bytes, -1)`,
      type: "bigint",
      join: sql`left join host_volume sent on sent.host_id = fleet.identity`,
    },
    incomplete_hours: {
      key: sql`coalesce(incomplete.hours, 0)`,
      type: "int",
      join: sql`left join (${incompleteHoursByHost(incompleteSince(rules))}) incomplete on incomplete.host_id = fleet.identity`,
    },
  }) satisfies Record<FleetSort, HostOrder | JoinedOrder>;

/** One part of the rows, and their order. */
export interface FleetPageRequest extends OrderedRange {
  sort: FleetSort;
}

/**
 * Finds a page of the fleet, and the position of the next page; null on the last. The database checks the filter again when it reads the
 * rows of the chosen hosts: a page may have fewer rows than its limit.
 */
export const findFleetPage = async (
  view: ViewedFleet,
  filter: FleetFilter,
  { sort, ...range }: FleetPageRequest,
): Promise<{ rows: FleetRow[]; next: FleetPosition | null }> => {
  const { rules } = view;
  const where = fleetPredicate(filter, rules);
  const order = ordersOf(rules)[sort];
  const { ids, next } =
    "join" in order
      ? await selectStored(view, where).first(order, range)
      : await (await selectHosts(view, where)).first(order, range);
  // The names of hosts, which the database has just checked, do not change.
  const { text, notText, device, notDevice, hostname, notHostname, ...changing } = filter;
  const chosen = sql`select identity_id
    from unnest(${uuids(ids)}) with ordinality as chosen (identity_id, place) order by place`;
  return { rows: await selectRows(view, chosen, fleetPredicate(changing, rules)), next };
};

/** Finds a collector. */
export const findFleetRow = (view: ViewedFleet, id: string): Promise<FleetRow | undefined> =>
  firstRow(
    selectRows(view, sql`select identity_id from fleet_host where identity_id = ${id}::uuid`),
  );

/** A queue that fills, and by how much it grew in how many seconds. */
export interface FillingQueue extends Record<string, unknown> {
  identity_id: string;
  device_id: string;
  bytes: number;
  max_bytes: number;
  oldest_record_age_seconds: number;
  grew_bytes: number;
  grew_seconds: number;
  seconds_left: number;
}

/** Finds the queues that are full within a time, the soonest first. */
export const findFillingQueues = (
  db: Executor,
  seconds: number,
  rules: FleetRules,
  limit: number,
): Promise<FillingQueue[]> =>
  db.execute<FillingQueue>(sql`
    select q.identity_id, h.device_id, f.queue_bytes::float8 as bytes, f.queue_bytes_max::float8 as max_bytes,
      f.queue_oldest_seconds as oldest_record_age_seconds, q.grew_bytes::float8, round(q.grew_seconds)::float8 as grew_seconds, q.seconds_left
    from ${queuesFullWithin(seconds, rules)} q join fleet_status f on f.identity_id = q.identity_id
    join fleet_host h on h.identity_id = q.identity_id order by q.seconds_left, q.identity_id limit ${limit}::int`);

/** The numbers of the last status, and the columns that the newest report alone has. */
const figures = sql.raw(
  everyNumber
    .flatMap(({ column, figure }) => (figure ? `nullif(${figure}, -1) as ${column}` : []))
    .join(", "),
);
const reportedColumns = sql.raw(
  membersOfRow()
    .flatMap(({ columns }) => columns)
    .flatMap(({ column, isReported }) => (isReported ? `h.${column}` : []))
    .join(", "),
);

/** A row as it is selected: the enumerations by their index. */
type SelectedRow = FleetRow & Record<"state_index" | "forwarding_index", number>;

/** One batch of an export, and the identity after which the next one begins; null after the last. */
interface ExportedBatch {
  rows: FleetRow[];
  next: string | null;
}

/** Returns the function that finds a batch of an export, in the order of identities. Builds the text of its statement once. */
export const defineExport = (
  { db, rules }: ViewedFleet,
  filter: FleetFilter,
  kind: ExportKind,
): ((page: { after: string | null; limit: number }) => Promise<ExportedBatch>) => {
  const run = defineStatement<SelectedRow>(
    statementOfRows(
      rules,
      sql`select identity_id from ${hostsOf(rules)} where ${exportPredicate(filter, rules, kind)}
        and identity > ${sql.placeholder("after")}::text order by identity limit ${sql.placeholder("limit")}::int`,
    ),
    { isKept: false },
  );
  return async ({ after, limit }) => {
    const rows = (await run(db, { after: after ?? "", limit: limit + 1 })).map(rowOf);
    const exported = rows.slice(0, limit);
    return {
      rows: exported,
      next: rows.length > limit ? (exported.at(-1)?.identity ?? null) : null,
    };
  };
};

const conditionFlags = (rules: FleetRules): SQL =>
  sql.join(
    fleetConditions.map(
      (condition) =>
        sql`${conditionPredicate(condition, rules)} as ${sql.identifier(`is_${condition}`)}`,
    ),
    sql`, `,
  );

/** Returns all columns of chosen hosts that match `where` when they are read, in order. */
const selectRows = async (
  { db, rules }: ViewedFleet,
  chosen: SQL,
  where = always,
): Promise<FleetRow[]> =>
  (await db.execute<SelectedRow>(statementOfRows(rules, chosen, where))).map(rowOf);

/** Changes the driver's own row: copying fifty columns would cost more than everything else here. */
const rowOf = (row: SelectedRow): FleetRow =>
  Object.assign(row, {
    state: stateAtIndex(row.state_index),
    forwarding: forwardings[row.forwarding_index] ?? null,
    ...(agentPromises[row.agent].hasQueue ? {} : noQueue),
  });

/** An agent without a queue reports nothing of one. */
const noQueue = Object.fromEntries(
  Object.values(reportedNumbers.queue).map(({ column }) => [column, null]),
);

/** `chosen` selects ids from the narrow table, so that a sort of the whole fleet uses little memory. */
const statementOfRows = (rules: FleetRules, chosen: SQL, where = always): SQL => {
  const at = timestamptz(rules.now);
  const isPast = rules.past !== undefined;
  const isNow = sql.raw(String(!isPast));
  return sql`
    select f.*, ${isPast ? columnsOfPast(at) : columnsOfNow(rules)}, ${reportedColumns},
      c.issued_at as certificate_issued_at, c.not_after as certificate_not_after, c.renew_after as certificate_renew_after,
      s.id as successor_id, s.not_after as successor_not_after, s.renew_after as successor_renew_after,
      h.config_errors[1] as config_error, array_to_string(h.reported_conditions, '; ') as reported_conditions, h.dropped_since_previous,
      nullif(encode(f.desired_config, 'hex'), '') as desired_config_hash, coalesce(l.labels, '{}') as labels,
      case when f.last_heartbeat_at = h.last_heartbeat_at then h.forwarder_last_ack_at
        when last_ack_seconds >= 0 then f.last_heartbeat_at - make_interval(secs => last_ack_seconds) end as forwarder_last_ack_at,
      v.day_bytes, v.usual_bytes, b.budget as held_by_budget, b.since as held_since, b.until as held_until, n.owner as inventory_owner,
      g.ranges as gap_ranges, g.records_max as gap_records_max, g.last_at as gap_last_at
    from (select identity_id as selected_id, row_number() over () as rank from (${chosen}) sorted) selected
    cross join lateral (
      select identity_id, certificate_id, successor_id as unused_successor_id, identity, device_id, platform, version, agent,
        label_set_id, enrolled_at, drift, desired_config, revoked_from, expired_from, expiring_from, last_ack_seconds,
        ${figures}, starts as restarts, nullif(core, '') as core, nullif(subnet, '') as subnet,
        nullif(last_heartbeat_at, ${never}) as last_heartbeat_at, ${isPast ? pastFacts : sql``}
        ${stillSends(rules)} as still_sends, ${stateIndex(rules)} as state_index, ${forwardingIndex(rules)} as forwarding_index,
        ${conditionFlags(rules)}
      from ${hostsOf(rules)} where identity_id = selected_id and ${where} limit 1
    ) f
    -- One lookup a row and table. LIMIT 1 leaves no other plan: planning takes 1 ms instead of 4, and no table is scanned for a large page.
    cross join lateral (select * from collector_identity where id = selected_id limit 1) i
    cross join lateral (select * from certificate where id = f.certificate_id limit 1) c
    left join lateral (select * from label_set where id = f.label_set_id limit 1) l on true
    left join lateral (select * from certificate where id = f.unused_successor_id and not_after > ${at} limit 1) s on true
    -- History has none of these.
    left join lateral (select * from collector_health where identity_id = selected_id limit 1) h on ${isNow}
    left join lateral (select * from ingest_host where host_id = i.identity limit 1) e on ${isNow}
    left join lateral (select * from ingest_gap where host_id = i.identity limit 1) g on ${isNow}
    left join lateral (select * from host_volume where host_id = i.identity limit 1) v on ${isNow}
    left join lateral (select * from held_host where host_id = i.identity and until > ${at} limit 1) b on ${isNow}
    left join lateral (
      select * from inventory_host where name in (f.device_id, f.identity) order by removed_at nulls first limit 1
    ) n on ${isNow}
    order by selected.rank`;
};

/** Returns the columns that are read otherwise of the past: from the newest report and events, and the inventory. */
const columnsOfNow = (rules: FleetRules): SQL => sql`
  i.revoked_at, i.last_auth_failure_at, i.last_auth_failure_reason, coalesce(h.hostname, i.hostname) as hostname, e.last_envelope_at,
  c.status as certificate_status, c.revoked_at as certificate_revoked_at, h.running_config_hash, h.last_known_good_config_hash,
  h.config_invalid_since, h.queue_at_risk_since, h.renewal_failed_since, h.version_since, h.forwarder_connected,
  ${incompleteHoursOf(sql`i.identity`, incompleteSince(rules))} as incomplete_hours, ${inventoryStatusOf(rules)} as inventory_status`;

/** The facts of a past host from which its columns are read. */
const pastFacts = sql`nullif(hostname, '') as known_hostname, nullif(last_envelope_at, ${never}) as known_envelope_at, running_config,
  last_known_good_config, condition_since, version_since as known_version_since, config_invalid, renewal_failed,
  forwarder_connected as is_connected,`;

/** Returns the same columns from history; null where it has none. */
const columnsOfPast = (at: SQLWrapper): SQL => sql`
  ${revokedBy(sql`i`, at)} as revoked_at, null as last_auth_failure_at, null as last_auth_failure_reason, f.known_hostname as hostname,
  f.known_envelope_at as last_envelope_at,
  case when c.revoked_at <= ${at} then 'revoked' when c.replaced_at <= ${at} then 'replaced' else 'active' end as certificate_status,
  ${revokedBy(sql`c`, at)} as certificate_revoked_at, nullif(encode(f.running_config, 'hex'), '') as running_config_hash,
  nullif(encode(f.last_known_good_config, 'hex'), '') as last_known_good_config_hash,
  ${sinceIf(sql`f.config_invalid and not f.renewal_failed`)} as config_invalid_since,
  ${sinceIf(sql`not f.config_invalid and not f.renewal_failed`)} as queue_at_risk_since,
  ${sinceIf(sql`f.renewal_failed`)} as renewal_failed_since, f.known_version_since as version_since,
  case when f.last_heartbeat_at is not null then f.is_connected end as forwarder_connected,
  null::int as incomplete_hours, null as inventory_status`;

/** The time of a revocation that had happened by then; null otherwise. */
const revokedBy = (table: SQL, at: SQLWrapper): SQL =>
  sql`case when ${table}.revoked_at <= ${at} then ${table}.revoked_at end`;

/** Only the start of the first condition that a host reported is known. */
const sinceIf = (isFirst: SQL): SQL =>
  sql`case when f.condition_since > ${never} and ${isFirst} then f.condition_since end`;

const background = {
  policyId: String,
  policyName: String,
  reenrollment: asIs<Reenrollment>,
  configErrors: orNull(asIs<string[]>),
  effectiveConfig: orNull(String),
};

/** The policy of a host, every config error that its last heartbeat reported, and the config that an agent reported over OpAMP. */
export type HostBackground = RowOf<typeof background>;

/** Finds the background of a host. */
export const findHostBackground = (
  db: Executor,
  identityId: string,
): Promise<HostBackground | undefined> =>
  readRow(
    db,
    background,
    sql`
    select p.id as policy_id, p.name as policy_name, p.reenrollment, h.config_errors, a.effective_config
    from collector_identity i join enrollment_policy p on p.id = i.policy_id left join collector_health h on h.identity_id = i.id
    left join opamp_agent a on a.identity_id = i.id
    where i.id = ${identityId}::uuid`,
  );
