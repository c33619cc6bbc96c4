import { sql } from "drizzle-orm";
import {
  type AccountFacts,
  abruptEndings,
  anyQueue,
  clockSkewMs,
  type ExportPlace,
  type ExportRejection,
  type QueueEnding,
  type QueueFacts,
} from "#proto/completeness/hour-state.ts";
import { withLosses } from "#proto/completeness/lost-ranges.ts";
import type { Executor } from "../database/database.ts";
import { readDatabaseIdentity } from "../database/identity.ts";
import { arrayLiteral, nextXid } from "../database/statements.ts";

/** A host and the start of an hour, in milliseconds since the Unix epoch. */
export interface HostHour {
  host: string;
  hourMs: number;
}

const milliseconds = (column: string) =>
  sql.raw(
    `case when isfinite(${column}) then (extract(epoch from ${column}) * 1000)::bigint::text end`,
  );
const numberOf = (text: string | null) => (text === null ? null : Number(text));
const timeOf = (ms: number) => new Date(ms).toISOString();

/** Lists the names of enrolled hosts after `after` in the order of their bytes. */
export const listHosts = async (
  db: Executor,
  { after, limit }: { after: string; limit: number },
): Promise<string[]> => {
  const rows = await db.execute<{ identity: string }>(
    sql`select identity from fleet_status where identity > ${after} order by identity limit ${limit}`,
  );
  return rows.map(({ identity }) => identity);
};

/** Lists hosts that have sent since `sinceMs` without being enrolled, in the order of their bytes. */
export const listUnenrolledHosts = async (db: Executor, sinceMs: number): Promise<string[]> => {
  const rows = await db.execute<{ host_id: string }>(sql`
    select host_id from ingest_host h where last_envelope_at >= ${timeOf(sinceMs)}::timestamptz
      and not exists (select from fleet_status s where s.identity = h.host_id collate "C")
    order by host_id collate "C"`);
  return rows.map(({ host_id }) => host_id);
};

/** What decides on the states of a host's hours besides their accounts; times in milliseconds since the Unix epoch. */
interface HostFacts {
  host: string;
  enrolledMs: number | null;
  revokedMs: number | null;
  /** Its last status or envelope. */
  lastSeenMs: number | null;
  queues: readonly QueueFacts[];
}

type QueueRow = [
  queueId: string,
  firstSeen: string,
  ended: string | null,
  ending: QueueEnding | null,
  sendsAccounts: boolean,
  from: string | null,
  through: string | null,
];

const queueOf = ([
  queueId,
  firstSeen,
  ended,
  ending,
  sendsAccounts,
  from,
  through,
]: QueueRow): QueueFacts => ({
  queueId,
  fromMs: Number(from ?? firstSeen),
  endMs: numberOf(ended),
  ending,
  sendsAccounts,
  accountedThroughMs: numberOf(through),
});

/**
 * Finds the facts of hosts. When core ends a queue by its own clock, the queue binds its host's hours until that time by the host's clock,
 * whose lead is known from the last account. A host whose queues core does not know by name, as before this version or behind a stream, has
 * one queue without an id. `offset 0` makes PostgreSQL look up each host instead of joining the whole fleet for each page.
 */
export const findHostFacts = async (
  db: Executor,
  hosts: readonly string[],
): Promise<Map<string, HostFacts>> => {
  const rows = await db.execute<
    Record<"host" | "enrolled" | "revoked" | "spoke" | "first" | "last" | "queues", string | null>
  >(sql`
    select w.host, ${milliseconds("s.enrolled_at")} as enrolled, ${milliseconds("coalesce(d.revoked_at, s.revoked_from)")} as revoked,
      ${milliseconds("greatest(s.last_heartbeat_at, s.last_envelope_at, i.last_envelope_at)")} as spoke, q.queues,
      ${milliseconds("first.from_at")} as first, ${milliseconds("last.to_at")} as last
    from unnest(${arrayLiteral(hosts)}::text[]) as w (host)
    left join fleet_status s on s.identity = w.host collate "C"
    left join collector_identity d on d.identity = w.host
    left join lateral (select last_envelope_at from ingest_host where host_id = w.host offset 0) i on true
    left join lateral (
      select json_agg(json_build_array(encode(q.queue_id, 'hex'), ${milliseconds("q.first_seen_at")}, ${milliseconds("q.ended_at + coalesce(clock.ahead, '0')")}, q.ending,
        q.sends_accounts, ${milliseconds("own.from_at")}, ${milliseconds("newest.to_at")}) order by q.queue_id)::text as queues
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
      select to_at from ingest_account a where q.queues is null and a.host_id = w.host and ${isNotAhead} order by to_at desc limit 1) last on true`);
  return new Map(
    rows.map(({ host, enrolled, revoked, spoke, queues, first, last }) => {
      const known = (JSON.parse(queues ?? "[]") as QueueRow[]).map(queueOf);
      const facts: HostFacts = {
        host: host ?? "",
        enrolledMs: numberOf(enrolled),
        revokedMs: numberOf(revoked),
        lastSeenMs: numberOf(spoke),
        queues:
          queues === null && first !== null ? [anyQueue(Number(first), numberOf(last))] : known,
      };
      return [facts.host, facts];
    }),
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

type AccountRow = {
  host: string;
  hour: string;
  queue_id: Uint8Array;
  number: string;
  last_sequence: string;
  sha256: Uint8Array;
  body: Uint8Array;
  signature: Uint8Array;
  range_digest: Uint8Array | null;
  refused: string | null;
  from_ms: string;
  to_ms: string;
  received_ms: string;
  is_stopped: boolean;
  is_checked: boolean;
  sink: string;
  xid: string;
  stream: string | null;
  stream_end: string | null;
  export_rejections: string | null;
  lost_ranges: string | null;
} & Record<"accepted" | "stored" | "rejected" | "discarded" | "lost" | "missing", string>;

const accountColumns = sql`queue_id, number::text, last_sequence::text, sha256, body, signature, range_digest, refused,
  ${milliseconds("from_at")} as from_ms, ${milliseconds("to_at")} as to_ms, ${milliseconds("received_at")} as received_ms,
  is_stopped, is_checked, sink, xid::text, stream, stream_end::text, accepted::text, stored::text, rejected::text, discarded::text, lost::text, missing::text,
  (select json_agg(json_build_array(r.name, r.envelopes, r.items) order by r.name collate "C")::text from export_rejection r
    where r.host_id = a.host_id and r.queue_id = a.queue_id and r.after_sequence < a.last_sequence
      and r.after_sequence >= a.last_sequence - a.accepted and r.envelopes + r.items > 0) as export_rejections,
  (select json_agg(json_build_array(r.from_sequence::text, r.through_sequence::text, r.queue_id = a.queue_id))::text from ingest_lost_range r
    where a.refused is null and r.host_id = a.host_id and r.through_sequence > a.last_sequence - a.accepted
      and r.from_sequence <= a.last_sequence) as lost_ranges`;

/** Returns the key of a host's hour. */
export const hourKey = ({ host, hourMs }: HostHour): string => `${host}\0${hourMs}`;

const hourLengthMs = 3_600_000;

/** Finds the accounts that cover hours of hosts, by `hourKey`, each hour's in a fixed order. */
export const findHourAccounts = async (
  db: Executor,
  hours: readonly HostHour[],
): Promise<Map<string, HourAccount[]>> => {
  const rows = await db.execute<AccountRow>(sql`
    select w.host, ${milliseconds("w.hour")} as hour, ${accountColumns}
    from unnest(${arrayLiteral(hours.map(({ host }) => host))}::text[],
      ${arrayLiteral(hours.map(({ hourMs }) => timeOf(hourMs)))}::timestamptz[]) as w (host, hour)
    join ingest_account a on a.host_id = w.host and a.to_at >= w.hour and a.from_at < w.hour + interval '1 hour'
    order by from_at, queue_id, number, sha256`);
  const found = new Map<string, HourAccount[]>();
  for (const row of rows) {
    const account = accountOf(row);
    const hourMs = Number(row.hour);
    if (!covers(account, hourMs)) continue;
    const key = hourKey({ host: row.host, hourMs });
    const accounts = found.get(key) ?? [];
    found.set(key, accounts);
    accounts.push(account);
  }
  return found;
};

/** An account that ends when the hour begins does not cover it. */
const covers = ({ fromMs, toMs, isStopped }: HourAccount, hourMs: number) =>
  isStopped ? toMs > hourMs : fromMs >= hourMs && fromMs < hourMs + hourLengthMs;

/** Finds the accounts of a host that cover a time, in a fixed order. */
export const findHostAccounts = async (
  db: Executor,
  host: string,
  { fromMs, toMs }: { fromMs: number; toMs: number },
): Promise<HourAccount[]> => {
  const rows = await db.execute<AccountRow>(sql`
    select ${accountColumns} from ingest_account a
    where host_id = ${host} and to_at >= ${timeOf(fromMs)}::timestamptz and from_at < ${timeOf(toMs)}::timestamptz
    order by from_at, queue_id, number, sha256`);
  return rows.map(accountOf);
};

const accountOf = (row: AccountRow): HourAccount =>
  withLosses(storedOf(row), lostRangesOf(row.lost_ranges));

const lostRangesOf = (text: string | null): Parameters<typeof withLosses>[1] => {
  const rows: [from: string, through: string, isOwn: boolean][] = JSON.parse(text ?? "[]");
  return rows.map(([from, through, isOwn]) => ({
    from: BigInt(from),
    through: BigInt(through),
    isOwn,
  }));
};

const storedOf = (row: AccountRow): HourAccount => ({
  queueId: row.queue_id,
  number: BigInt(row.number),
  lastSequence: BigInt(row.last_sequence),
  sha256: row.sha256,
  body: row.body,
  signature: row.signature,
  rangeDigest: row.range_digest,
  refused: row.refused,
  fromMs: Number(row.from_ms),
  toMs: Number(row.to_ms),
  receivedMs: Number(row.received_ms),
  isStopped: row.is_stopped,
  isChecked: row.is_checked,
  sink: row.sink,
  xid: BigInt(row.xid),
  streamEnd:
    row.stream === null ? null : { stream: row.stream, sequence: BigInt(row.stream_end ?? 0) },
  accepted: Number(row.accepted),
  stored: Number(row.stored),
  rejected: Number(row.rejected),
  discarded: Number(row.discarded),
  lost: Number(row.lost),
  missing: Number(row.missing),
  exportRejections: rejectionsOf(row.export_rejections),
});

const rejectionsOf = (text: string | null): ExportRejection[] => {
  const rows: [name: string, records: number, items: number][] = JSON.parse(text ?? "[]");
  return rows.map(([name, records, items]) => ({ name, records, items }));
};

/** An export that is on. */
export interface NamedExport extends ExportPlace {
  name: string;
}

/** Below every transaction id, also those of a dump (renumber-envelopes.ts). */
const belowAll = -(2n ** 62n);

/** Lists the exports. A position of another server, as in a restored dump, counts as nothing delivered until the export adopts it. */
export const listExports = async (db: Executor): Promise<NamedExport[]> => {
  const { systemIdentifier, databaseOid } = await readDatabaseIdentity(db);
  const rows = await db.execute<{
    name: string;
    stream: string | null;
    position: string;
    elsewhere: boolean;
  }>(sql`
    select name, stream, position::text, stream is null and (position > ${nextXid}
      or coalesce(system_identifier <> ${systemIdentifier}::text, false) or coalesce(database_oid <> ${databaseOid}::text, false)) as elsewhere
    from export_position order by name collate "C"`);
  return rows.map(({ name, stream, position, elsewhere }) => ({
    name,
    stream,
    position: elsewhere ? belowAll : BigInt(position),
  }));
};

/** An account of a host that slept is followed back this far. */
const hoursMax = 400 * 24;

/**
 * Deletes accounts that core received before a time, except the newest of each queue, which the next account names; and older rejections of
 * exports and losses of streams.
 */
export const deleteOldAccounts = async (db: Executor, before: Date): Promise<void> => {
  await db.execute(sql`
    delete from ingest_account old where received_at < ${before.toISOString()}::timestamptz and exists (
      select 1 from ingest_account newer where newer.host_id = old.host_id and newer.queue_id = old.queue_id
        and newer.number > old.number and newer.refused is null)`);
  await db.execute(
    sql`delete from export_rejection where last_at < ${before.toISOString()}::timestamptz`,
  );
  await db.execute(
    sql`delete from ingest_lost_range where recorded_at < ${before.toISOString()}::timestamptz`,
  );
};

/** Finds the hours before `endMs` of accounts received since `since`, and the time from which to continue if there are more. */
export const findLateHours = async (
  db: Executor,
  { since, endMs, limit }: { since: Date; endMs: number; limit: number },
): Promise<{ hours: HostHour[]; next: Date | null }> => {
  const rows = await db.execute<
    Record<"host_id" | "from_ms" | "to_ms" | "received_ms", string> & { is_stopped: boolean }
  >(sql`
    select host_id, ${milliseconds("from_at")} as from_ms, ${milliseconds("to_at")} as to_ms,
      ${milliseconds("received_at")} as received_ms, is_stopped
    from ingest_account where received_at >= ${since.toISOString()}::timestamptz and from_at < ${timeOf(endMs)}::timestamptz
    order by received_at limit ${limit}`);
  const hours = rows.flatMap(
    ({ host_id: host, from_ms: from, to_ms: to, is_stopped: isStopped }) => {
      const first = Math.floor(Number(from) / hourLengthMs) * hourLengthMs;
      const end = Math.min(endMs, isStopped ? Number(to) : first + hourLengthMs);
      const found: HostHour[] = [];
      for (
        let hourMs = Math.max(first, endMs - hoursMax * hourLengthMs);
        hourMs < end;
        hourMs += hourLengthMs
      )
        found.push({ host, hourMs });
      return found;
    },
  );
  const last = rows.length === limit ? rows.at(-1) : undefined;
  return { hours, next: last === undefined ? null : new Date(Number(last.received_ms)) };
};
