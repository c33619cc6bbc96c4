import type { SqlClient } from "../../../functions/store/database/pool/sql-client.ts";
import type { RunningNats } from "../../../scripts/lab/nats-servers.ts";
import { readStream } from "../../support/nats-sink.ts";

/**
 * Copies the stream into `ingest_envelope`, in its order, so that one oracle judges both sinks: `xid` rises with the stream's
 * sequence. Replaces what an earlier copy wrote.
 */
export const copyStream = async (nats: RunningNats, sql: SqlClient): Promise<void> => {
  const messages = await readStream(nats);
  const since = Date.now() - messages.length;
  await sql`truncate ingest_envelope`;
  for (let start = 0; start < messages.length; start += 500) {
    const rows = messages.slice(start, start + 500).map(({ headers, sequence, bytes }, index) => ({
      host_id: decodeURIComponent(headers["Svc-Host"] ?? ""),
      queue_id: Buffer.from(headers["Svc-Queue"] ?? "", "hex"),
      sequence: String(sequence),
      kind: headers["Svc-Kind"] ?? "",
      received_at: new Date(since + start + index).toISOString(),
      xid: start + index + 1,
      source: decodeURIComponent(headers["Svc-Source"] ?? ""),
      attributes: headers["Svc-Attributes"] ?? "{}",
      payload: Buffer.from(bytes),
    }));
    await sql`insert into ingest_envelope ${sql(rows)}`;
  }
};
