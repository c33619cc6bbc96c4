import { sql } from "drizzle-orm";
import type { Executor } from "../database/database.ts";
import { arrayLiteral, asIs, orNull, readRows } from "../database/statements.ts";
import { type HostRange, isInRange } from "../ingest/host-blocks.ts";
import type { StoredEnvelope } from "../ingest/stored-envelope.ts";

/** Pages of a partition that a statement scans, and the most rows and bytes that one reads. */
const pagesOfScan = 512n;
const rowsOfRead = 500;
const bytesOfRead = 1024 * 1024;

const microseconds = (column: string) => sql.raw(`(extract(epoch from ${column}) * 1e6)::bigint`);

const envelopeColumns = {
  queueId: asIs<Uint8Array>,
  sequence: BigInt,
  kind: String,
  observedAt: orNull(BigInt),
  receivedAt: BigInt,
  source: String,
  attributes: asIs<StoredEnvelope["attributes"]>,
  payload: asIs<Uint8Array>,
};

/**
 * Yields the rows of a host in the order of the disk, nearly that of their receipt. Yields nothing between scans, so that a reader can end
 * it. Without an index by host, scans each partition of the range piece by piece.
 */
export async function* readHostRows(
  db: Pick<Executor, "execute">,
  range: HostRange,
): AsyncGenerator<StoredEnvelope[], void, void> {
  const isWanted = sql`${isInRange(range)} ${range.kind === null ? sql`` : sql`and kind = ${range.kind}`}`;
  for (const { table, pages } of await findPartitions(db, range))
    for (let page = 0n; page < pages; page += pagesOfScan) {
      const between = sql`ctid >= ${`(${page},0)`}::tid and ctid < ${`(${page + pagesOfScan},0)`}::tid`;
      const found = await readRows(
        db,
        { at: String, bytes: Number },
        sql`
        select ctid::text as at, octet_length(payload) as bytes from ${sql.identifier(table)} where ${between} and ${isWanted}`,
      );
      yield [];
      for (const places of cut(found)) yield await readAt(db, table, range.hostId, places);
    }
}

const findPartitions = async (
  db: Pick<Executor, "execute">,
  { from, to }: HostRange,
): Promise<{ table: string; pages: bigint }[]> => {
  const day = (date: Date) =>
    `ingest_envelope_${date.toISOString().slice(0, 10).replaceAll("-", "")}`;
  // The default partition, whose name sorts after those of the days, may have rows of any day.
  return readRows(
    db,
    { table: String, pages: BigInt },
    sql`
    select relname as table, pg_relation_size(oid) / current_setting('block_size')::bigint as pages
    from pg_class where oid in (select inhrelid from pg_inherits where inhparent = 'ingest_envelope'::regclass)
      and (relname = 'ingest_envelope_default' or (relname >= ${from ? day(from) : ""} and relname <= ${to ? day(to) : "z"}))
    order by relname`,
  );
};

/** Splits the positions of rows into reads of bounded size. */
function* cut(found: readonly { at: string; bytes: number }[]): Generator<string[], void, void> {
  let places: string[] = [];
  let bytes = 0;
  for (const row of found) {
    places.push(row.at);
    bytes += row.bytes;
    if (places.length < rowsOfRead && bytes < bytesOfRead) continue;
    yield places;
    places = [];
    bytes = 0;
  }
  if (places.length > 0) yield places;
}

const readAt = async (
  db: Pick<Executor, "execute">,
  table: string,
  hostId: string,
  places: readonly string[],
): Promise<StoredEnvelope[]> => {
  const rows = await readRows(
    db,
    envelopeColumns,
    sql`
    select queue_id, sequence, kind, ${microseconds("observed_at")} as observed_at, ${microseconds("received_at")} as received_at,
      source, attributes, payload
    from ${sql.identifier(table)} where host_id = ${hostId} and ctid = any(${arrayLiteral(places)}::tid[])`,
  );
  return rows.map((row) => ({ ...row, hostId }));
};
