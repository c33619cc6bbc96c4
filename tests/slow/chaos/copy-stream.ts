import type { SqlClient } from "#functions/store/database/pool/sql-client.ts";
import type { RunningNats } from "#scripts/lab/nats-servers.ts";
import { readStream } from "#tests/support/nats-sink.ts";

/**
 * Copies the stream into `ingest_envelope`, in its order, so that one oracle judges both sinks: `xid` rises with the stream's
 * sequence. Replaces what an earlier copy wrote.
 */
export const copyStream = async (nats: RunningNats, sql: SqlClient) => {
  const messages = await readStream(nats);
  const since = Date.now() - messages.length;
  await sql`truncate ingest_envelope`;
  const rows = messages.flatMap(({ envelopes }, index) =>
    envelopes.map(({ hostId, queueId, sequence, kind, source, attributes, payload }) => ({
      host_id: hostId,
      queue_id: queueId,
      sequence: String(sequence),
      kind,
      source,
      payload,
      received_at: new Date(since + index).toISOString(),
      xid: index + 1,
      attributes: JSON.stringify(attributes),
    })),
  );
  for (let start = 0; start < rows.length; start += 500)
    await sql`insert into ingest_envelope ${sql(rows.slice(start, start + 500))}`;
};
