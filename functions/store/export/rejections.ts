/** What the backends of exports reject, counted to the accounts of hosts (`export_rejection`). */
import { type SQL, sql } from "drizzle-orm";
import type { Executor } from "../database/database.ts";
import { arrayLiteral } from "../database/query-parts.ts";
import type { StoredEnvelope } from "../ingest/stored-envelope.ts";

/** What a backend rejected for good of an envelope, or of the envelopes up to it. */
export interface RejectedEnvelope {
  envelope: Pick<StoredEnvelope, "hostId" | "queueId" | "sequence">;
  /** So many spans, log records or data points; undefined: all of the envelope. */
  items?: number | undefined;
}

/**
 * Sums rejections up by the range of sequences that an account has. The account before an envelope is stored before the envelope is, since the
 * collector sends it first: so the range is known also while the envelope's own account has not come.
 */
const rangesOf = (rejected: readonly RejectedEnvelope[]): SQL => {
  const all = (of: (one: RejectedEnvelope) => string | Uint8Array) =>
    arrayLiteral(rejected.map(of));
  return sql`
    select r.host, r.queue, coalesce(before.last_sequence, 0) as after_sequence, sum(r.envelopes) as envelopes, sum(r.items) as items
    from unnest(${all(({ envelope }) => envelope.hostId)}::text[], ${all(({ envelope }) => envelope.queueId)}::bytea[],
      ${all(({ envelope }) => String(envelope.sequence))}::bigint[], ${all(({ items }) => (items === undefined ? "1" : "0"))}::bigint[],
      ${all(({ items = 0 }) => String(items))}::bigint[]) as r (host, queue, sequence, envelopes, items)
    left join lateral (
      select last_sequence from ingest_account a
      where a.host_id = r.host and a.queue_id = r.queue and a.refused is null and a.last_sequence < r.sequence
      order by a.number desc limit 1) before on true
    group by 1, 2, 3`;
};

/** Adds rejections of an export to those of their accounts. */
export const addRejections = async (
  tx: Executor,
  name: string,
  rejected: readonly RejectedEnvelope[],
): Promise<void> => {
  if (rejected.length === 0) return;
  // In one order, so that exports cannot deadlock.
  await tx.execute(sql`
    insert into export_rejection (host_id, queue_id, after_sequence, name, envelopes, items, last_at)
    select host, queue, after_sequence, ${name}, envelopes, items, clock_timestamp() from (${rangesOf(rejected)}) as r order by 1, 2, 3
    on conflict (host_id, queue_id, after_sequence, name) do update set last_at = excluded.last_at,
      envelopes = export_rejection.envelopes + excluded.envelopes, items = export_rejection.items + excluded.items`);
};

/** Takes rejections off again, as the backend has accepted the envelopes after all. */
export const takeRejections = async (
  tx: Executor,
  name: string,
  accepted: readonly RejectedEnvelope[],
): Promise<void> => {
  if (accepted.length === 0) return;
  await tx.execute(sql`
    update export_rejection e set last_at = clock_timestamp(),
      envelopes = greatest(0, e.envelopes - r.envelopes), items = greatest(0, e.items - r.items)
    from (${rangesOf(accepted)}) as r
    where e.host_id = r.host and e.queue_id = r.queue and e.after_sequence = r.after_sequence and e.name = ${name}`);
};
