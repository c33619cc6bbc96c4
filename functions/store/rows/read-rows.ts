import { createCopyFields } from "../database/copy-fields.ts";
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
