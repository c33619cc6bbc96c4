import { sql } from "drizzle-orm";
import { hourMs } from "#kit/clock.ts";
import {
  type AccountFacts,
  clockSkewMs,
  type ExportPlace,
  type ExportRejection,
} from "#proto/completeness/hour-accounts.ts";
import { abruptEndings, anyQueue, type QueueFacts } from "#proto/completeness/hour-state.ts";
import { withLosses } from "#proto/completeness/lost-ranges.ts";
import { agentKinds, agentPromises } from "#proto/values.ts";
import type { Executor } from "../database/database.ts";
import { readDatabaseIdentity } from "../database/identity.ts";
import {
  arrayLiteral,
  asIs,
  nextXid,
  orNull,
  type RowOf,
  readRows,
  readScalars,
  texts,
  timestamptz,
} from "../database/statements.ts";

/** A host and the start of an hour, in milliseconds since the Unix epoch. */
export interface HostHour {
  host: string;
  hourStartMs: number;
}

const provenAgents = agentKinds.filter((kind) => agentPromises[kind].completeness === "proven");

const milliseconds = (column: string) =>
  sql.raw(`case when isfinite(${column}) then (extract(epoch from ${column}) * 1000)::bigint end`);
const timeOf = (ms: number) => new Date(ms).toISOString();

/** Lists the names of enrolled hosts whose completeness core proves, after `after` in the order of their bytes. */
export const listHosts = (
  db: Executor,
  { after, limit }: { after: string; limit: number },
): Promise<string[]> =>
  readScalars(
    db,
    String,
    sql`select identity from fleet_status where identity > ${after} and agent = any(${texts(provenAgents)}) order by identity limit ${limit}`,
  );

/** Lists hosts that have sent since `sinceMs` without being enrolled, in the order of their bytes. */
export const listUnenrolledHosts = (db: Executor, sinceMs: number): Promise<string[]> =>
  readScalars(
    db,
    String,
    sql`
    select host_id from ingest_host h where last_envelope_at >= ${timestamptz(sinceMs)}
      and not exists (select from fleet_status s where s.identity = h.host_id collate "C")
    order by host_id collate "C"`,
  );

const hostColumns = {
  host: String,
  enrolledMs: orNull(Number),
  revokedMs: orNull(Number),
  /** Its last status or envelope. */
  lastSeenMs: orNull(Number),
  queues: asIs<QueueRow[] | null>,
  /** The time of the accounts of a host without queues. */
  first: orNull(Number),
  last: orNull(Number),
};

/** Facts of a host that decide the states of its hours, without its accounts. Times are milliseconds since the Unix epoch. */
interface HostFacts extends Omit<RowOf<typeof hostColumns>, "queues" | "first" | "last"> {
  queues: readonly QueueFacts[];
}

type QueueRow = Omit<QueueFacts, "fromMs"> & { firstSeenMs: number; fromMs: number | null };

const queueOf = ({ firstSeenMs, fromMs, ...queue }: QueueRow): QueueFacts => ({
  ...queue,
  fromMs: fromMs ?? firstSeenMs,
});

/**
 * Finds the facts of hosts. When core ends a queue by its own clock, the queue binds its host's hours until that time by the host's clock,
 * whose lead is known from the last account. A host whose queues core does not know by name, as before this version, has
 * one queue without an id. `offset 0` makes PostgreSQL look up each host instead of joining the whole fleet for each page.
 */
export const findHostFacts = async (
  db: Executor,
  hosts: readonly string[],
): Promise<Map<string, HostFacts>> => {
  const rows = await readRows(
    db,
    hostColumns,
    sql`
    select w.host, ${milliseconds("s.enrolled_at")} as enrolled_ms, ${milliseconds("coalesce(d.revoked_at, s.revoked_from)")} as revoked_ms,
      ${milliseconds("greatest(s.last_heartbeat_at, s.last_envelope_at, i.last_envelope_at)")} as last_seen_ms, q.queues,
      ${milliseconds("first.from_at")} as first, ${milliseconds("last.to_at")} as last
    from unnest(${texts(hosts)}) as w (host)
    left join fleet_status s on s.identity = w.host collate "C"
    left join collector_identity d on d.identity = w.host
    left join lateral (select last_envelope_at from ingest_host where host_id = w.host offset 0) i on true
    left join lateral (
      select json_agg(json_build_object('queueId', encode(q.queue_id, 'hex'), 'firstSeenMs', ${milliseconds("q.first_seen_at")},
        'endMs', ${milliseconds("q.ended_at + coalesce(clock.ahead, '0')")}, 'ending', q.ending, 'sendsAccounts', q.sends_accounts,
        'fromMs', ${milliseconds("own.from_at")}, 'accountedThroughMs', ${milliseconds("newest.to_at")}) order by q.queue_id) as queues
      from ingest_queue q
      left join lateral (
        select from_at from ingest_account a where a.host_id = q.host_id and a.queue_id = q.queue_id and a.refused is null
        order by a.number limit 1) own on true
      left join lateral (
        select to_at from ingest_account a where a.host_id = q.host_id and a.queue_id = q.queue_id and ${isNotAhead}
        order by a.number desc limit 1) newest on true
      left join lateral (
        select greatest(to_at - received_at, '0') as ahead from ingest_account a
        where q.ending = any(${arrayLiteral(abruptEndings)}) and a.host_id = q.host_id and a.queue_id = q.queue_id and a.refused is null
        order by a.number desc limit 1) clock on true
      where q.host_id = w.host) q on true
    left join lateral (
      select from_at from ingest_account a where q.queues is null and a.host_id = w.host and a.refused is null order by to_at limit 1) first on true
    left join lateral (
      select to_at from ingest_account a where q.queues is null and a.host_id = w.host and ${isNotAhead} order by to_at desc limit 1) last on true`,
  );
  return new Map(
    rows.map(({ queues, first, last, ...facts }) => [
      facts.host,
      {
        ...facts,
        queues:
          queues === null && first !== null ? [anyQueue(first, last)] : (queues ?? []).map(queueOf),
      },
    ]),
  );
};

const isNotAhead = sql`a.refused is null and a.to_at <= a.received_at + interval '1 millisecond' * ${clockSkewMs}::int`;

/** An account of a host's hour. */
export interface HourAccount extends Omit<AccountFacts, "stated" | "queueId"> {
  queueId: Uint8Array;
  number: bigint;
  lastSequence: bigint;
  sha256: Uint8Array;
  body: Uint8Array;
  signature: Uint8Array;
  rangeDigest: Uint8Array | null;
}

const lostRangesOf = (rows: [from: string, through: string, isOwn: boolean][] | null) =>
  (rows ?? []).map(([from, through, isOwn]) => ({
    from: BigInt(from),
    through: BigInt(through),
    isOwn,
  }));

const rejectionsOf = (rows: [name: string, records: number, items: number][] | null) =>
  (rows ?? []).map(([name, records, items]): ExportRejection => ({ name, records, items }));

const accountColumns = {
  queueId: asIs<Uint8Array>,
  number: BigInt,
  lastSequence: BigInt,
  sha256: asIs<Uint8Array>,
  body: asIs<Uint8Array>,
  signature: asIs<Uint8Array>,
  rangeDigest: asIs<Uint8Array | null>,
  refused: orNull(String),
  fromMs: Date.parse,
  toMs: Date.parse,
  receivedMs: Date.parse,
  isStopped: Boolean,
  isChecked: Boolean,
  sink: String,
  xid: BigInt,
  accepted: Number,
  stored: Number,
  rejected: Number,
  discarded: Number,
  lost: Number,
  missing: Number,
  exportRejections: rejectionsOf,
  lostRanges: lostRangesOf,
};

const selectedAccount = sql`queue_id, number::text, last_sequence, sha256, body, signature, range_digest, refused, from_at as from_ms,
  to_at as to_ms, received_at as received_ms, is_stopped, is_checked, sink, xid,
  accepted, stored, rejected, discarded, lost, missing,
  (select json_agg(json_build_array(r.name, r.envelopes, r.items) order by r.name collate "C") from export_rejection r
    where r.host_id = a.host_id and r.queue_id = a.queue_id and r.after_sequence < a.last_sequence
      and r.after_sequence >= a.last_sequence - a.accepted and r.envelopes + r.items > 0) as export_rejections,
  (select json_agg(json_build_array(r.from_sequence::text, r.through_sequence::text, r.queue_id = a.queue_id)) from ingest_lost_range r
    where a.refused is null and r.host_id = a.host_id and r.through_sequence > a.last_sequence - a.accepted
      and r.from_sequence <= a.last_sequence) as lost_ranges`;

const accountOf = ({ lostRanges, ...account }: RowOf<typeof accountColumns>): HourAccount =>
  withLosses(account, lostRanges);

/** Returns the key of a host's hour. */
export const hourKey = ({ host, hourStartMs }: HostHour): string => `${host}\0${hourStartMs}`;

/** Finds the accounts that cover hours of hosts, by `hourKey`, each hour's in a fixed order. */
export const findHourAccounts = async (
  db: Executor,
  hours: readonly HostHour[],
): Promise<Map<string, HourAccount[]>> => {
  const rows = await readRows(
    db,
    { host: String, hourStartMs: Date.parse, ...accountColumns },
    sql`
    select w.host, w.hour as hour_start_ms, ${selectedAccount}
    from unnest(${texts(hours.map(({ host }) => host))},
      ${arrayLiteral(hours.map(({ hourStartMs }) => timeOf(hourStartMs)))}::timestamptz[]) as w (host, hour)
    join ingest_account a on a.host_id = w.host and a.to_at >= w.hour and a.from_at < w.hour + interval '1 hour'
    order by from_at, queue_id, number, sha256`,
  );
  const found = new Map<string, HourAccount[]>();
  for (const { host, hourStartMs, ...row } of rows) {
    const account = accountOf(row);
    if (!covers(account, hourStartMs)) continue;
    const key = hourKey({ host, hourStartMs });
    const accounts = found.get(key) ?? [];
    found.set(key, accounts);
    accounts.push(account);
  }
  return found;
};

/** An account that ends when the hour begins does not cover it. */
const covers = ({ fromMs, toMs, isStopped }: HourAccount, hourStartMs: number) =>
  isStopped ? toMs > hourStartMs : fromMs >= hourStartMs && fromMs < hourStartMs + hourMs;

/** Finds the accounts of a host that cover a time, in a fixed order. */
export const findHostAccounts = async (
  db: Executor,
  host: string,
  { fromMs, toMs }: { fromMs: number; toMs: number },
): Promise<HourAccount[]> => {
  const rows = await readRows(
    db,
    accountColumns,
    sql`
    select ${selectedAccount} from ingest_account a
    where host_id = ${host} and to_at >= ${timestamptz(fromMs)} and from_at < ${timestamptz(toMs)}
    order by from_at, queue_id, number, sha256`,
  );
  return rows.map(accountOf);
};

/** An export that is on. */
export interface NamedExport extends ExportPlace {
  name: string;
}

/** Below every transaction id, also those of a dump (renumber-envelopes.ts). */
export const belowAll = -(2n ** 62n);

/** Lists the exports. A position of another server, as in a restored dump, counts as nothing delivered until the export adopts it. */
export const listExports = async (db: Executor): Promise<NamedExport[]> => {
  const { systemIdentifier, databaseOid } = await readDatabaseIdentity(db);
  const rows = await readRows(
    db,
    { name: String, position: BigInt, isElsewhere: Boolean },
    sql`
    select name, position, position > ${nextXid} or coalesce(system_identifier <> ${systemIdentifier}::text, false)
      or coalesce(database_oid <> ${databaseOid}::text, false) as is_elsewhere
    from export_position where stream is null order by name collate "C"`,
  );
  return rows.map(({ isElsewhere, ...row }) =>
    isElsewhere ? { ...row, position: belowAll } : row,
  );
};

/** Returns the hours of a range that an account covers: of a running queue, only the hour in which the account begins. */
export const hoursOf = (
  account: { host: string } & Pick<HourAccount, "fromMs" | "toMs" | "isStopped">,
  range: { fromMs: number; untilMs: number },
): HostHour[] => {
  const { host, fromMs, toMs, isStopped } = account;
  const firstHour = Math.floor(fromMs / hourMs) * hourMs;
  const end = Math.min(range.untilMs, isStopped ? toMs : firstHour + hourMs);
  const hours: HostHour[] = [];
  for (
    let hourStartMs = Math.max(firstHour, range.fromMs);
    hourStartMs < end;
    hourStartMs += hourMs
  )
    hours.push({ host, hourStartMs });
  return hours;
};

/**
 * Deletes accounts that core received before a time, except the newest of each queue, which the next account names; and older rejections of
 * exports, and losses.
 */
export const deleteOldAccounts = async (db: Executor, before: Date) => {
  await db.execute(sql`
    delete from ingest_account old where received_at < ${timestamptz(before)} and exists (
      select 1 from ingest_account newer where newer.host_id = old.host_id and newer.queue_id = old.queue_id
        and newer.number > old.number and newer.refused is null)`);
  await db.execute(sql`delete from export_rejection where last_at < ${timestamptz(before)}`);
  await db.execute(sql`delete from ingest_lost_range where recorded_at < ${timestamptz(before)}`);
};
