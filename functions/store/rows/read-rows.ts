import { sql } from "drizzle-orm";
import { createCopyFields } from "../database/copy-fields.ts";
import type { Database } from "../database/database.ts";
import type { StoredEnvelope } from "../ingest/stored-envelope.ts";

const columns =
  "host_id, queue_id, sequence, kind, observed_at, received_at, source, attributes, payload";

/** Returns the statement that copies the rows of a range of transaction ids. */
export const copyRows = ({ from, to }: { from: bigint; to: bigint }): string =>
  `copy (select ${columns} from ingest_envelope where xid >= ${from} and xid < ${to}) to stdout with (format binary)`;

/** Decodes a row of `copyRows`; undefined for the header and the trailer of a COPY. */
export const decodeRow = (chunk: Buffer): StoredEnvelope | undefined => {
  const fields = createCopyFields(chunk);
  if (fields === undefined) return undefined;
  const hostId = fields.text();
  const queueId = fields.bytes();
  const sequence = fields.bigint();
  const kind = fields.text();
  const observedAt = fields.time();
  const receivedAt = fields.time() ?? 0n;
  const source = fields.text();
  // The binary form of jsonb is its version, 1, and the text.
  const json = fields.text().slice(1);
  const attributes = json.length === 2 ? {} : (JSON.parse(json) as Record<string, string>);
  return {
    hostId,
    queueId,
    sequence,
    kind,
    observedAt,
    receivedAt,
    source,
    attributes,
    payload: fields.bytes(),
  };
};

/** Adds new ranges to the indexes on `xid` of all partitions of rows: until then each read scans these. */
export const summarizeRows = async (db: Pick<Database, "execute">) => {
  await db.execute(sql`
    select brin_summarize_new_values(indexrelid::regclass) from pg_index join pg_class on pg_class.oid = indexrelid
    join pg_am on pg_am.oid = relam
    where amname = 'brin' and indrelid in (select inhrelid from pg_inherits where inhparent = 'ingest_envelope'::regclass)`);
};
